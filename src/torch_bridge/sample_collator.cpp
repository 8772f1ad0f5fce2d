// Leaves of few bytes are copied here, one sample after the other; large ones are given to torch.stack().
#include <pybind11/pybind11.h>  // before torch's headers, so that both see this pybind11

#include "torch_bridge/sample_collator.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>
#include <ATen/record_function.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "torch_bridge/sample_tree.h"

namespace millrace::torch_bridge {
namespace {

namespace py = pybind11;

// From here on torch stacks: without the GIL, and by several threads.
constexpr size_t kLargeRow = size_t{4} << 10, kLargeBatch = size_t{256} << 10;

class SampleCollator final : SampleTree {
 public:
  // Null: not for us.
  py::object collate(const py::list& samples) {
    count_ = static_cast<int64_t>(samples.size());
    for (; row_ < count_; ++row_) {
      if (static_cast<int64_t>(samples.size()) != count_) return {};  // comparing keys may run Python code
      const py::object sample = samples[static_cast<size_t>(row_)];
      if (row_ == 0 && !learn(sample.ptr())) return {};
      if (!write(root, sample.ptr(), false)) return {};
    }
    return count_ > 0 ? assembled(root) : py::object();
  }

 private:
  uint8_t* row(Node& node) override {
    if (row_ == 0) {
      std::vector<int64_t> sizes{count_};
      sizes.insert(sizes.end(), node.sizes.begin(), node.sizes.end());
      node.batch = at::empty(sizes, at::TensorOptions().dtype(node.element));
      node.rows = static_cast<uint8_t*>(node.batch.mutable_data_ptr());
    }
    return node.rows + static_cast<size_t>(row_) * node.row_bytes;
  }

  void put_row(Node& node, const void* row_major, PyObject* owner) override {
    if (stacks(node)) {
      const auto options = at::TensorOptions().dtype(node.element);
      stack_later(node, at::from_blob(const_cast<void*>(row_major), node.sizes, options), owner);
    } else if (uint8_t* into = row(node); node.row_bytes > 0) {
      std::memcpy(into, row_major, node.row_bytes);
    }
  }

  // torch.stack() gives rows that are not row-major strides of its own choice.
  void put_tensor(Node& node, const at::Tensor& tensor, PyObject* owner) override {
    if (stacks(node) || (row_ == 0 && !tensor.is_contiguous()))
      stack_later(node, tensor, owner);
    else if (tensor.is_contiguous())
      put_row(node, tensor.const_data_ptr(), owner);
    else
      at::from_blob(row(node), node.sizes, tensor.options()).copy_(tensor);
  }

  bool stacks(const Node& node) const {
    return !node.pieces.empty() ||
           (node.row_bytes >= kLargeRow && node.row_bytes * static_cast<size_t>(count_) >= kLargeBatch);
  }

  void stack_later(Node& node, const at::Tensor& tensor, PyObject* owner) {
    node.pieces.push_back(tensor);
    owners_.push_back(py::reinterpret_borrow<py::object>(owner));
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
    if (!node.pieces.empty()) {
      const py::gil_scoped_release release;
      node.batch = at::stack(node.pieces, 0);
    }
    return py::reinterpret_steal<py::object>(THPVariable_Wrap(node.batch));
  }

  int64_t count_ = 0, row_ = 0;
  std::vector<py::object> owners_;  // of the pieces
};

bool a_mode_is_active() {
  return at::impl::PythonTorchFunctionTLS::stack_len() > 0 ||
         c10::impl::TorchDispatchModeTLS::any_modes_set();
}

}  // namespace

PyObject* collate_samples(PyObject* samples) {
  if (!PyList_CheckExact(samples) || a_mode_is_active()) return nullptr;
  try {
    return SampleCollator().collate(py::reinterpret_borrow<py::list>(samples)).release().ptr();
  } catch (py::error_already_set& error) {
    error.restore();
    throw PythonError{};
  } catch (const c10::Error&) {  // no memory: torch says it in its own words
    return nullptr;
  }
}

namespace {

bool is_left_alone(PyObject* value) {
  return value == Py_None || PyUnicode_CheckExact(value) || PyBytes_CheckExact(value) ||
         PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value) ||
         reinterpret_cast<PyObject*>(Py_TYPE(value)) == THPVariableClass;
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

bool ranges_are_heard() { return at::hasCallbacks(); }

}  // namespace millrace::torch_bridge
