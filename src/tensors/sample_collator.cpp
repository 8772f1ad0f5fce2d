// Leaves of few bytes are copied here, one sample after the other; large ones are given to torch.stack(), which
// writes row-major ones into slots of the ring.
#include "tensors/sample_collator.h"

#include <pybind11/pybind11.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tensors/sample_tree.h"
#include "tensors/tensor.h"
#include "tensors/torch_api.h"

namespace millrace::tensors {
namespace {

namespace py = pybind11;
using namespace pybind11::literals;

// From here on torch stacks: without the GIL, and by several threads.
constexpr size_t kWideRow = size_t{4} << 10, kLargeBatch = size_t{256} << 10;

// Of a field: the batch that is made, the one in the loop, and one that the loop has kept for a moment.
constexpr int kSlotsPerField = 3;

class SampleCollator final : SampleTree {
 public:
  explicit SampleCollator(core::BatchRing& ring) : ring_(ring) {}

  // Null: not for us.
  py::object collate(const py::list& samples) {
    count_ = static_cast<int64_t>(samples.size());
    for (; row_ < count_; ++row_) {
      if (static_cast<int64_t>(samples.size()) != count_) return {};  // comparing keys may run Python code
      const py::object sample = samples[static_cast<size_t>(row_)];
      if (row_ == 0 && !learn(sample.ptr())) return {};
      if (!write(root, sample.ptr(), false)) return {};
    }
    if (stacked_ > 0 && ring_.slots() != kSlotsPerField * stacked_)
      ring_.set_slots(kSlotsPerField * stacked_);
    return count_ > 0 ? assembled(root) : py::object();
  }

 private:
  uint8_t* row(Node& node) override {
    if (row_ == 0) {
      std::vector<int64_t> sizes{count_};
      sizes.insert(sizes.end(), node.sizes.begin(), node.sizes.end());
      void* data = nullptr;
      node.batch = py::reinterpret_steal<py::object>(make_tensor(sizes, node.element, &data));
      node.rows = static_cast<uint8_t*>(data);
    }
    return node.rows + static_cast<size_t>(row_) * node.row_bytes;
  }

  void put_row(Node& node, const void* row_major, PyObject* owner) override {
    if (stacks(node)) {
      const auto data = static_cast<uint8_t*>(const_cast<void*>(row_major));
      stack_later(node, {data, node.sizes, {}, node.element}, owner);
    } else if (uint8_t* into = row(node); node.row_bytes > 0) {
      std::memcpy(into, row_major, node.row_bytes);
    }
  }

  // torch.stack() gives rows that are not row-major strides of its own choice.
  void put_strided(Node& node, const TensorView& values, PyObject* owner) override {
    if (stacks(node) || row_ == 0) {
      stack_later(node, values, owner);
      node.row_major = false;
    } else {
      values.copy_to(row(node));
    }
  }

  bool stacks(const Node& node) const {
    return node.pieces ||
           (node.row_bytes >= kWideRow && node.row_bytes * static_cast<size_t>(count_) >= kLargeBatch);
  }

  void stack_later(Node& node, const TensorView& values, PyObject* owner) {
    if (!node.pieces) {
      node.pieces = py::list();
      ++stacked_;
    }
    auto piece = py::reinterpret_borrow<py::object>(owner);
    if (!Py_IS_TYPE(owner, torch_api().tensor)) {
      owners_.push_back(piece);
      piece = py::reinterpret_steal<py::object>(
          make_tensor(values.data, values.sizes, values.strides, values.type, nullptr));
    }
    if (PyList_Append(node.pieces.ptr(), piece.ptr()) != 0) throw py::error_already_set();
  }

  py::object assembled(Node& node) {
    const size_t count = node.children.size();
    switch (node.kind) {
      case Kind::object: {
        py::object& list = objects[node.objects];
        return node.in_sequence ? py::reinterpret_steal<py::object>(PyList_AsTuple(list.ptr())) : list;
      }
      case Kind::dict: {
        py::dict result;
        for (size_t i = 0; i < count; ++i) result[node.keys[i]] = assembled(node.children[i]);
        return result;
      }
      case Kind::tuple:
      case Kind::list: {
        py::list result(count);
        for (size_t i = 0; i < count; ++i) result[i] = assembled(node.children[i]);
        return result;
      }
      case Kind::named: {
        py::tuple parts(count);
        for (size_t i = 0; i < count; ++i) parts[i] = assembled(node.children[i]);
        return node.type(*parts);
      }
      default: break;
    }
    if (!node.pieces) return node.batch;
    try {
      const py::handle stack = torch_api().stack;
      const py::object slot = slot_for(node);
      return slot ? stack(node.pieces, "out"_a = slot) : stack(node.pieces);
    } catch (py::error_already_set& error) {
      if (!error.matches(PyExc_Exception)) throw;
      throw Error(ErrorKind::system, "torch.stack()");  // asked again, torch says it in its own words
    }
  }

  // A tensor over a slot of the ring. Null: torch allocates.
  py::object slot_for(const Node& node) {
    const size_t bytes = node.row_bytes * static_cast<size_t>(count_);
    if (!node.row_major || bytes < kLargeBatch) return {};
    auto lease = ring_.try_acquire(bytes);
    if (!lease) return {};
    std::vector<int64_t> sizes{count_};
    sizes.insert(sizes.end(), node.sizes.begin(), node.sizes.end());
    return py::reinterpret_steal<py::object>(tensor_from_lease(std::move(*lease), sizes, node.element));
  }

  core::BatchRing& ring_;
  int stacked_ = 0;  // leaves that torch stacks
  int64_t count_ = 0, row_ = 0;
  std::vector<py::object> owners_;  // of the pieces
};

bool a_mode_is_active() {
  for (PyObject* modes : {torch_api().function_modes, torch_api().dispatch_modes}) {
    const auto count = py::reinterpret_steal<py::object>(PyObject_CallNoArgs(modes));
    if (!count) throw py::error_already_set();
    if (PyLong_AsLong(count.ptr()) != 0) return true;
  }
  return false;
}

}  // namespace

PyObject* collate_samples(PyObject* samples, core::BatchRing& ring) {
  if (!PyList_CheckExact(samples)) return nullptr;
  try {
    return a_mode_is_active()
               ? nullptr
               : SampleCollator(ring).collate(py::reinterpret_borrow<py::list>(samples)).release().ptr();
  } catch (py::error_already_set& error) {
    error.restore();
    throw PythonError{};
  } catch (const Error&) {  // no memory
    return nullptr;
  }
}

namespace {

bool is_left_alone(PyObject* value) {
  return value == Py_None || PyUnicode_CheckExact(value) || PyBytes_CheckExact(value) ||
         PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value) ||
         Py_IS_TYPE(value, torch_api().tensor);
}

py::object converted(PyObject* value, const py::object& others) {
  if (is_left_alone(value)) return py::reinterpret_borrow<py::object>(value);
  if (PyDict_CheckExact(value)) {
    py::dict result;
    PyObject *key, *item;
    for (Py_ssize_t position = 0; PyDict_Next(value, &position, &key, &item);) {
      if (!is_left_alone(item))
        return others(py::handle(value));  // may run Python code, which may change the dict
      result[py::handle(key)] = py::handle(item);
    }
    return result;
  }
  if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
    if (Py_EnterRecursiveCall(" in default_convert") != 0) throw py::error_already_set();
    const std::unique_ptr<PyObject, void (*)(PyObject*)> leave(value,
                                                               [](PyObject*) { Py_LeaveRecursiveCall(); });
    const auto items = py::reinterpret_borrow<py::sequence>(value);
    py::list result;
    for (size_t i = 0; i < items.size(); ++i) result.append(converted(py::object(items[i]).ptr(), others));
    return result;
  }
  return others(py::handle(value));
}

}  // namespace

PyObject* convert_sample(PyObject* sample, PyObject* others) {
  try {
    return converted(sample, py::reinterpret_borrow<py::object>(others)).release().ptr();
  } catch (py::error_already_set& error) {
    error.restore();
    throw PythonError{};
  }
}

namespace {

// at::hasCallbacks(). Python has a name only for the profiler, which is one of those that listen.
using HasCallbacks = bool (*)();
HasCallbacks has_callbacks() {
  static const auto found =
      reinterpret_cast<HasCallbacks>(torch_symbol("libtorch_cpu.so", "_ZN2at12hasCallbacksEv"));
  return found;
}

}  // namespace

bool knows_who_listens() { return has_callbacks() != nullptr; }
bool ranges_are_heard() { return !knows_who_listens() || has_callbacks()(); }

}  // namespace millrace::tensors
