#include "torch_bridge/row_writer.h"

#include <pybind11/numpy.h>  // before torch's headers, so that both see this pybind11
#include <pybind11/pybind11.h>

#include <ATen/ops/from_blob.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "core/memory_budget.h"
#include "core/stream_copy.h"
#include "torch_bridge/scalar_type.h"
#include "torch_bridge/tensor.h"
#include "trace/stage_clock.h"

namespace millrace {
namespace {

namespace py = pybind11;

constexpr int kMaxDepth = 32;
constexpr size_t kLargeRow = size_t{64} << 10;  // from here on, a system call for each row is cheaper than its page faults

enum class Kind : uint8_t { tensor, array, numpy_scalar, python_float, python_int, python_bool, object, dict, tuple, list, named };

struct Node {
  Kind kind = Kind::object;
  py::object type;             // numpy_scalar, named: the class; object: str or bytes
  std::vector<py::object> keys;  // dict
  std::vector<Node> children;
  at::ScalarType element = at::kByte;
  std::vector<int64_t> sizes;  // of one row
  size_t row_bytes = 0, offset = 0;
  size_t objects = 0;          // object: which list
  bool in_sequence = false;    // object: torch's transposition makes a tuple of these, not a list
};

// The element type of what torch.as_tensor makes of such an array; Undefined for what it refuses.
at::ScalarType element_of(const py::dtype& type) {
  if (const char order = type.byteorder(); order != '=' && order != '|') return at::ScalarType::Undefined;
  const auto known = dtype_of(type.kind(), static_cast<size_t>(type.itemsize()));
  return known ? scalar_type(*known) : at::ScalarType::Undefined;
}

const py::object& numpy_type(const char* name) {
  static py::object& array = *new py::object(py::module_::import("numpy").attr("ndarray"));
  static py::object& scalar = *new py::object(py::module_::import("numpy").attr("generic"));
  return name[0] == 'n' ? array : scalar;
}

bool is_exactly(PyObject* value, const py::object& type) { return reinterpret_cast<PyObject*>(Py_TYPE(value)) == type.ptr(); }

bool is_named_tuple(PyObject* value) {
  return PyTuple_Check(value) && !PyTuple_CheckExact(value) && PyObject_HasAttrString(value, "_fields") == 1;
}

// numpy's view of the bytes of a scalar, or of an array; strides and all.
py::array as_array(PyObject* value) { return py::reinterpret_borrow<py::array>(py::handle(value)); }

bool contiguous(const py::array& a) { return (a.flags() & py::array::c_style) != 0; }

template <class T>
void store(uint8_t* row, T value) {
  std::memcpy(row, &value, sizeof value);
}

}  // namespace

struct RowWriter::Impl {
  const SharedRing& ring;
  int slot = -1;
  size_t reserved = 0, used = 0;
  bool fresh = false;  // this batch reaches beyond `reserved`, and its large rows bring the memory that they need
  int64_t capacity = 0, rows = 0, layouts = 0;
  int64_t laid_out_for = -1;  // the capacity that the offsets are for
  bool known = false;         // root describes a batch
  Node root{};
  std::vector<py::object> objects{};  // Python lists

  bool build(Node& node, PyObject* value, bool in_sequence, int depth);
  bool build_array(Node& node, Kind kind, const py::array& array);
  bool build_children(Node& node, PyObject* value, int depth);
  void place(Node& node, size_t& end);
  bool write(const Node& node, PyObject* value, bool exact_keys);
  bool write_children(const Node& node, PyObject* value, bool exact_keys);
  bool write_dict(const Node& node, PyObject* value, bool exact_keys);
  bool write_tensor(const Node& node, PyObject* value);
  bool write_array(const Node& node, const py::array& array);
  uint8_t* row(const Node& node) const { return ring.data(slot) + node.offset + static_cast<size_t>(rows) * node.row_bytes; }
  bool brings_memory(const Node& node) const { return fresh && node.row_bytes >= kLargeRow; }
  void provide();
  void provide(const Node& node);
  void put_row(const Node& node, const void* from) const;
  bool start(PyObject* sample);
  py::object describe(const Node& node) const;
};

// ---- the first sample

bool RowWriter::Impl::build_array(Node& node, Kind kind, const py::array& array) {
  node.kind = kind;
  node.element = element_of(array.dtype());
  if (node.element == at::ScalarType::Undefined) return false;
  node.sizes.assign(array.shape(), array.shape() + array.ndim());
  for (int d = 0; d < array.ndim(); ++d)
    if (array.strides(d) < 0) return false;  // torch refuses these
  node.row_bytes = static_cast<size_t>(array.nbytes());
  return true;
}

bool RowWriter::Impl::build_children(Node& node, PyObject* value, int depth) {
  const auto items = py::reinterpret_steal<py::object>(PySequence_Fast(value, ""));
  if (!items) throw PythonError{};
  node.children.resize(static_cast<size_t>(PySequence_Fast_GET_SIZE(items.ptr())));
  for (size_t i = 0; i < node.children.size(); ++i)
    if (!build(node.children[i], PySequence_Fast_GET_ITEM(items.ptr(), static_cast<Py_ssize_t>(i)), true, depth + 1)) return false;
  return !node.children.empty();
}

bool RowWriter::Impl::build(Node& node, PyObject* value, bool in_sequence, int depth) {
  if (depth > kMaxDepth) return false;
  const auto number = [&node](Kind kind, at::ScalarType element, size_t bytes) {
    node.kind = kind;
    node.element = element;
    node.row_bytes = bytes;
    return true;
  };
  if (is_plain_tensor(value)) {
    const at::Tensor& tensor = THPVariable_Unpack(value);
    node.sizes = tensor.sizes().vec();
    return number(Kind::tensor, tensor.scalar_type(), tensor.nbytes());
  }
  if (PyFloat_CheckExact(value)) return number(Kind::python_float, at::kDouble, sizeof(double));
  if (PyBool_Check(value)) return number(Kind::python_bool, at::kBool, 1);
  if (PyLong_CheckExact(value)) return number(Kind::python_int, at::kLong, sizeof(int64_t));
  if (is_exactly(value, numpy_type("ndarray"))) return build_array(node, Kind::array, as_array(value));
  if (PyUnicode_CheckExact(value) || PyBytes_CheckExact(value)) {
    node.kind = Kind::object;
    node.type = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(Py_TYPE(value)));
    node.in_sequence = in_sequence;
    node.objects = objects.size();
    objects.push_back(py::list());
    return true;
  }
  if (PyDict_CheckExact(value)) {
    node.kind = Kind::dict;
    PyObject *key, *item;
    for (Py_ssize_t position = 0; PyDict_Next(value, &position, &key, &item);) {
      node.keys.push_back(py::reinterpret_borrow<py::object>(key));
      if (!build(node.children.emplace_back(), item, false, depth + 1)) return false;
    }
    return !node.keys.empty();
  }
  if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
    node.kind = PyTuple_CheckExact(value) ? Kind::tuple : Kind::list;
    return build_children(node, value, depth);
  }
  if (is_named_tuple(value)) {
    node.kind = Kind::named;
    node.type = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(Py_TYPE(value)));
    return build_children(node, value, depth);
  }
  if (py::isinstance(py::handle(value), numpy_type("generic"))) {
    if (PyUnicode_Check(value) || PyBytes_Check(value)) return false;  // numpy.str_ and bytes_: torch decides
    node.type = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(Py_TYPE(value)));
    return build_array(node, Kind::numpy_scalar, py::array::ensure(py::handle(value)));
  }
  return false;
}

// Gives every leaf its rows, one leaf after the other.
void RowWriter::Impl::place(Node& node, size_t& end) {
  node.offset = end;
  const size_t bytes = checked_mul(node.row_bytes, static_cast<size_t>(capacity), "batch");
  end = aligned_field(checked_add(end, bytes, "batch"));
  for (Node& child : node.children) place(child, end);
}

// Makes sure that nothing is written to where there is no memory.
void RowWriter::Impl::provide() {
  fresh = used > reserved;
  if (!fresh) return;
  refuse_if_memory_is_short(used - reserved, "this batch");
  provide(root);
}

void RowWriter::Impl::provide(const Node& node) {
  const size_t bytes = node.row_bytes * static_cast<size_t>(capacity);
  if (bytes > 0 && !brings_memory(node)) ring.reserve_range(slot, node.offset, node.offset + bytes);
  for (const Node& child : node.children) provide(child);
}

void RowWriter::Impl::put_row(const Node& node, const void* from) const {
  if (brings_memory(node)) ring.write(slot, node.offset + static_cast<size_t>(rows) * node.row_bytes, from, node.row_bytes);
  else copy_row(row(node), from, node.row_bytes, used);
}

// The batch's first sample: like the last batch's, or a new layout.
bool RowWriter::Impl::start(PyObject* sample) {
  const bool same = known && laid_out_for == capacity;
  if (same) {
    provide();
    if (write(root, sample, true)) return true;
  }
  known = false;
  objects.clear();
  root = Node();
  if (!build(root, sample, false, 0)) return false;
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

// ---- every sample

bool RowWriter::Impl::write_tensor(const Node& node, PyObject* value) {
  if (!is_plain_tensor(value)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(value);
  if (tensor.scalar_type() != node.element || tensor.sizes() != at::IntArrayRef(node.sizes)) return false;
  if (tensor.is_contiguous() || brings_memory(node)) put_row(node, tensor.contiguous().const_data_ptr());
  else at::from_blob(row(node), node.sizes, tensor.options()).copy_(tensor);
  return true;
}

bool RowWriter::Impl::write_array(const Node& node, const py::array& array) {
  if (element_of(array.dtype()) != node.element || array.ndim() != static_cast<py::ssize_t>(node.sizes.size())) return false;
  for (size_t d = 0; d < node.sizes.size(); ++d)
    if (array.shape(static_cast<py::ssize_t>(d)) != node.sizes[d] || array.strides(static_cast<py::ssize_t>(d)) < 0) return false;
  if (contiguous(array)) {
    put_row(node, array.data());
    return true;
  }
  std::vector<int64_t> strides;  // torch counts elements, numpy bytes
  for (size_t d = 0; d < node.sizes.size(); ++d) {
    if (array.strides(static_cast<py::ssize_t>(d)) % array.itemsize() != 0) return false;
    strides.push_back(array.strides(static_cast<py::ssize_t>(d)) / array.itemsize());
  }
  const auto options = at::TensorOptions().dtype(node.element);
  const at::Tensor tensor = at::from_blob(const_cast<void*>(array.data()), node.sizes, strides, options);
  if (brings_memory(node)) put_row(node, tensor.contiguous().const_data_ptr());
  else at::from_blob(row(node), node.sizes, options).copy_(tensor);
  return true;
}

bool RowWriter::Impl::write_dict(const Node& node, PyObject* value, bool exact_keys) {
  if (!PyDict_CheckExact(value)) return false;
  const size_t count = node.keys.size();
  if (exact_keys && static_cast<size_t>(PyDict_GET_SIZE(value)) != count) return false;
  // Datasets write the same keys in the same order, so the next item is usually the one.
  PyObject *key = nullptr, *item = nullptr;
  Py_ssize_t position = 0;
  bool in_step = true;
  for (size_t i = 0; i < count; ++i) {
    in_step = in_step && PyDict_Next(value, &position, &key, &item) && key == node.keys[i].ptr();
    if (!in_step) {
      if (exact_keys) return false;
      item = PyDict_GetItemWithError(value, node.keys[i].ptr());
      if (item == nullptr) {
        if (PyErr_Occurred()) throw PythonError{};
        return false;
      }
    }
    if (!write(node.children[i], item, exact_keys)) return false;
  }
  return true;
}

bool RowWriter::Impl::write_children(const Node& node, PyObject* value, bool exact_keys) {
  const bool same_type = node.kind == Kind::tuple  ? PyTuple_CheckExact(value)
                         : node.kind == Kind::list ? PyList_CheckExact(value)
                                                   : is_exactly(value, node.type);
  if (!same_type) return false;
  PyObject* const* items = PyList_CheckExact(value) ? PySequence_Fast_ITEMS(value) : &PyTuple_GET_ITEM(value, 0);
  const Py_ssize_t size = PyList_CheckExact(value) ? PyList_GET_SIZE(value) : PyTuple_GET_SIZE(value);
  if (static_cast<size_t>(size) != node.children.size()) return false;
  for (size_t i = 0; i < node.children.size(); ++i)
    if (!write(node.children[i], items[i], exact_keys)) return false;
  return true;
}

bool RowWriter::Impl::write(const Node& node, PyObject* value, bool exact_keys) {
  switch (node.kind) {
    case Kind::tensor: return write_tensor(node, value);
    case Kind::array: return is_exactly(value, numpy_type("ndarray")) && write_array(node, as_array(value));
    case Kind::numpy_scalar: return is_exactly(value, node.type) && write_array(node, py::array::ensure(py::handle(value)));
    case Kind::python_float:
      if (!PyFloat_CheckExact(value)) return false;
      store(row(node), PyFloat_AS_DOUBLE(value));
      return true;
    case Kind::python_bool:
      if (!PyBool_Check(value)) return false;
      *row(node) = value == Py_True;
      return true;
    case Kind::python_int: {
      int overflow = 0;
      if (!PyLong_CheckExact(value)) return false;
      store(row(node), static_cast<int64_t>(PyLong_AsLongLongAndOverflow(value, &overflow)));
      return overflow == 0;
    }
    case Kind::object:
      if (!is_exactly(value, node.type)) return false;
      if (PyList_Append(objects[node.objects].ptr(), value) != 0) throw PythonError{};
      return true;
    case Kind::dict: return write_dict(node, value, exact_keys);
    case Kind::tuple: case Kind::list: case Kind::named: return write_children(node, value, exact_keys);
  }
  return false;
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
  if (node.kind == Kind::tensor) kind = py::str("tensor");
  else if (node.kind == Kind::array) kind = py::str("array");
  else if (node.kind == Kind::numpy_scalar) kind = node.type;
  else if (node.kind == Kind::python_float) kind = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(&PyFloat_Type));
  else if (node.kind == Kind::python_bool) kind = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(&PyBool_Type));
  else kind = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(&PyLong_Type));
  return py::make_tuple("field", kind, node.offset, static_cast<int>(node.element), py::tuple(py::cast(node.sizes)));
}

RowWriter::RowWriter(const SharedRing& ring) : impl_(std::make_unique<Impl>(Impl{ring})) {}
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
  const StageScope scope(Stage::collate);
  Impl& w = *impl_;
  const bool written = w.rows >= w.capacity ? false : w.rows == 0 ? w.start(sample) : w.write(w.root, sample, false);
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

}  // namespace millrace
