#include "tensors/row_writer.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "core/memory_budget.h"
#include "core/stream_copy.h"
#include "tensors/sample_tree.h"
#include "trace/stage_clock.h"

namespace millrace::tensors {
namespace {

namespace py = pybind11;

constexpr size_t kLargeRow =
    size_t{64} << 10;  // from here on, a system call for each row is cheaper than its page faults

}  // namespace

struct RowWriter::Impl final : SampleTree {
  explicit Impl(const core::SharedRing& shared) : ring(shared) {}

  const core::SharedRing& ring;
  int slot = -1;
  size_t reserved = 0, used = 0;
  bool fresh =
      false;  // this batch reaches beyond `reserved`, and its large rows bring the memory that they need
  int64_t capacity = 0, rows = 0, layouts = 0;
  int64_t laid_out_for = -1;  // the capacity that the offsets are for
  bool known = false;         // root describes a batch
  using SampleTree::objects;
  using SampleTree::root;
  using SampleTree::write;

  size_t row_offset(const Node& node) const {
    return node.offset + static_cast<size_t>(rows) * node.row_bytes;
  }
  uint8_t* row(Node& node) override { return ring.data(slot) + row_offset(node); }
  void put_row(Node& node, const void* row_major, PyObject* owner) override;
  void put_strided(Node& node, const TensorView& values, PyObject* owner) override;

  bool brings_memory(const Node& node) const { return fresh && node.row_bytes >= kLargeRow; }
  void place(Node& node, size_t& end);
  void provide();
  void provide(const Node& node);
  bool start(PyObject* sample);
  py::object describe(const Node& node) const;
};

// Gives every leaf its rows, one leaf after the other.
void RowWriter::Impl::place(Node& node, size_t& end) {
  node.offset = end;
  const size_t bytes = base::checked_mul(node.row_bytes, static_cast<size_t>(capacity), "batch");
  end = core::aligned_field(base::checked_add(end, bytes, "batch"));
  for (Node& child : node.children) place(child, end);
}

// Makes sure that nothing is written to where there is no address or no memory.
void RowWriter::Impl::provide() {
  ring.map(slot, used);
  fresh = used > reserved;
  if (!fresh) return;
  core::refuse_if_memory_is_short(used - reserved, "this batch");
  provide(root);
}

void RowWriter::Impl::provide(const Node& node) {
  const size_t bytes = node.row_bytes * static_cast<size_t>(capacity);
  if (bytes > 0 && !brings_memory(node)) ring.reserve_range(slot, node.offset, node.offset + bytes);
  for (const Node& child : node.children) provide(child);
}

void RowWriter::Impl::put_row(Node& node, const void* row_major, PyObject* /*owner*/) {
  if (brings_memory(node))
    ring.write(slot, row_offset(node), row_major, node.row_bytes);
  else
    core::copy_row(row(node), row_major, node.row_bytes, used);
}

void RowWriter::Impl::put_strided(Node& node, const TensorView& values, PyObject* owner) {
  if (!brings_memory(node)) return values.copy_to(row(node));
  const std::unique_ptr<uint8_t[]> row_major(new uint8_t[node.row_bytes]);
  values.copy_to(row_major.get());
  put_row(node, row_major.get(), owner);
}

// The batch's first sample: like the last batch's, or a new layout.
bool RowWriter::Impl::start(PyObject* sample) {
  const bool same = known && laid_out_for == capacity;
  if (same) {
    provide();
    if (write(root, sample, true)) return true;
  }
  known = false;
  if (!learn(sample)) return false;
  size_t end = 0;
  place(root, end);
  if (end > ring.stride()) return false;
  used = end;
  laid_out_for = capacity;
  provide();
  known = true;
  ++layouts;
  return write(root, sample, true);
}

// ---- what the batch looks like

py::object RowWriter::Impl::describe(const Node& node) const {
  py::tuple children(node.children.size());
  for (size_t i = 0; i < node.children.size(); ++i) children[i] = describe(node.children[i]);
  switch (node.kind) {
    case Kind::dict: {
      py::tuple keys(node.keys.size());
      for (size_t i = 0; i < node.keys.size(); ++i) keys[i] = node.keys[i];
      return py::make_tuple("dict", keys, children);
    }
    case Kind::tuple: return py::make_tuple("tuple", children);
    case Kind::list: return py::make_tuple("list", children);
    case Kind::named: return py::make_tuple("namedtuple", node.type, children);
    case Kind::object: return py::make_tuple("objects", node.objects, node.in_sequence);
    default: break;
  }
  py::object kind;
  if (node.kind == Kind::tensor)
    kind = py::str("tensor");
  else if (node.kind == Kind::array)
    kind = py::str("array");
  else if (node.kind == Kind::numpy_scalar)
    kind = node.type;
  else if (node.kind == Kind::python_float)
    kind = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(&PyFloat_Type));
  else if (node.kind == Kind::python_bool)
    kind = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(&PyBool_Type));
  else
    kind = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(&PyLong_Type));
  return py::make_tuple("field", kind, node.offset, static_cast<int>(node.element),
                        py::tuple(py::cast(node.sizes)));
}

RowWriter::RowWriter(const core::SharedRing& ring) : impl_(std::make_unique<Impl>(ring)) {}
RowWriter::~RowWriter() = default;

void RowWriter::begin(int slot, size_t reserved, int64_t capacity) {
  impl_->slot = slot;
  impl_->reserved = reserved;
  impl_->capacity = capacity;
  impl_->rows = 0;
  impl_->fresh = false;  // an error may have ended the batch before
  for (py::object& list : impl_->objects) list = py::list();
}

bool RowWriter::add(PyObject* sample) {
  const trace::StageScope scope(trace::Stage::collate);
  Impl& w = *impl_;
  const bool written = w.rows >= w.capacity ? false
                       : w.rows == 0        ? w.start(sample)
                                            : w.write(w.root, sample, false);
  if (written) {
    ++w.rows;
    return true;
  }
  for (const py::object& list : w.objects)  // a row that failed half way
    if (PyList_SetSlice(list.ptr(), w.rows, PY_SSIZE_T_MAX, nullptr) != 0) throw PythonError{};
  return false;
}

int64_t RowWriter::rows() const { return impl_->rows; }
size_t RowWriter::used_bytes() const { return impl_->used; }

size_t RowWriter::reserved_bytes() const {
  Impl& w = *impl_;
  if (std::exchange(w.fresh, false)) {  // a short batch left rows out
    w.ring.reserve_range(w.slot, w.reserved, w.used);
    w.reserved = w.used;
  }
  return w.reserved;
}

int64_t RowWriter::layout_number() const { return impl_->layouts; }
PyObject* RowWriter::layout() const { return impl_->describe(impl_->root).release().ptr(); }

PyObject* RowWriter::objects() const {
  py::list all;
  for (const py::object& list : impl_->objects) all.append(list);
  return all.release().ptr();
}

}  // namespace millrace::tensors
