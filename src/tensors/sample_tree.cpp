// One pass over a sample: first to see what it is, then, as for every other sample, to put its leaves into
// their rows.
#include "tensors/sample_tree.h"

#include <pybind11/numpy.h>

#include <cstring>
#include <optional>
#include <vector>

#include "tensors/torch_api.h"

namespace millrace::tensors {
namespace {

namespace py = pybind11;

constexpr int kMaxDepth = 32;

// The element type of what torch.as_tensor makes of such an array; none for what it refuses.
std::optional<base::DType> element_of(const py::dtype& type) {
  if (const char order = type.byteorder(); order != '=' && order != '|') return std::nullopt;
  return base::dtype_of(type.kind(), static_cast<size_t>(type.itemsize()));
}

const py::object& numpy_type(const char* name) {
  static py::object& array = *new py::object(py::module_::import("numpy").attr("ndarray"));
  static py::object& scalar = *new py::object(py::module_::import("numpy").attr("generic"));
  return name[0] == 'n' ? array : scalar;
}

bool is_exactly(PyObject* value, const py::object& type) {
  return reinterpret_cast<PyObject*>(Py_TYPE(value)) == type.ptr();
}

bool is_named_tuple(PyObject* value) {
  return PyTuple_Check(value) && !PyTuple_CheckExact(value) && PyObject_HasAttrString(value, "_fields") == 1;
}

// torchvision's Image as the plain tensor that torch.stack() takes it for, unless the program has asked for
// results that are Images, too. Null for everything else.
py::object plain_image(PyObject* value) {
  PyTypeObject* const tensor = torch_api().tensor;
  if (!PyObject_TypeCheck(value, tensor)) return {};
  const auto module = [](const char* name) {
    return py::handle(PyDict_GetItemString(PyImport_GetModuleDict(), name));
  };
  const py::handle types = module("torchvision.tv_tensors"),
                   results = module("torchvision.tv_tensors._torch_function_helpers");
  if (!types || !results || !is_exactly(value, py::getattr(types, "Image", py::none()))) return {};
  if (!py::getattr(results, "_TORCHFUNCTION_SUBCLASS", py::none()).is(py::bool_(false))) return {};
  return py::handle(value).attr("as_subclass")(py::handle(reinterpret_cast<PyObject*>(tensor)));
}

// numpy's view of the bytes of a scalar, or of an array; strides and all.
py::array as_array(PyObject* value) { return py::reinterpret_borrow<py::array>(py::handle(value)); }

bool contiguous(const py::array& a) { return (a.flags() & py::array::c_style) != 0; }

template <class T>
void store(uint8_t* row, T value) {
  std::memcpy(row, &value, sizeof value);
}

}  // namespace

bool SampleTree::learn(PyObject* sample) {
  objects.clear();
  root = Node();
  return build(root, sample, false, 0);
}

bool SampleTree::build_array(Node& node, Kind kind, const py::object& object) {
  const auto array = py::reinterpret_borrow<py::array>(object);
  node.kind = kind;
  const auto element = element_of(array.dtype());
  if (!element) return false;
  node.element = *element;
  node.sizes.assign(array.shape(), array.shape() + array.ndim());
  for (int d = 0; d < array.ndim(); ++d)
    if (array.strides(d) < 0) return false;  // torch refuses these
  node.row_bytes = static_cast<size_t>(array.nbytes());
  return true;
}

bool SampleTree::build_children(Node& node, PyObject* value, int depth) {
  const auto items = py::reinterpret_steal<py::object>(PySequence_Fast(value, ""));
  if (!items) throw PythonError{};
  node.children.resize(static_cast<size_t>(PySequence_Fast_GET_SIZE(items.ptr())));
  for (size_t i = 0; i < node.children.size(); ++i)
    if (!build(node.children[i], PySequence_Fast_GET_ITEM(items.ptr(), static_cast<Py_ssize_t>(i)), true,
               depth + 1))
      return false;
  return !node.children.empty();
}

bool SampleTree::build(Node& node, PyObject* value, bool in_sequence, int depth) {
  if (depth > kMaxDepth) return false;
  const auto number = [&node](Kind kind, base::DType element, size_t bytes) {
    node.kind = kind;
    node.element = element;
    node.row_bytes = bytes;
    return true;
  };
  if (TensorView view; read_plain(value, view)) {
    node.sizes.assign(view.sizes.begin(), view.sizes.end());
    return number(Kind::tensor, view.type, view.bytes());
  }
  if (PyFloat_CheckExact(value)) return number(Kind::python_float, base::DType::f64, sizeof(double));
  if (PyBool_Check(value)) return number(Kind::python_bool, base::DType::b8, 1);
  if (PyLong_CheckExact(value)) return number(Kind::python_int, base::DType::i64, sizeof(int64_t));
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
  if (const py::object image = plain_image(value)) return build(node, image.ptr(), in_sequence, depth + 1);
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

// ---- every sample

bool SampleTree::write_tensor(Node& node, PyObject* value) {
  TensorView view;
  if (!read_plain_again(value, view)) {
    const py::object image = plain_image(value);
    return image && write_tensor(node, image.ptr());
  }
  if (view.type != node.element || !view.has_sizes(node.sizes)) return false;
  if (view.is_contiguous())
    put_row(node, view.data, value);
  else
    put_strided(node, view, value);
  return true;
}

bool SampleTree::write_array(Node& node, const py::object& object) {
  const auto array = py::reinterpret_borrow<py::array>(object);
  if (element_of(array.dtype()) != node.element ||
      array.ndim() != static_cast<py::ssize_t>(node.sizes.size()))
    return false;
  for (size_t d = 0; d < node.sizes.size(); ++d)
    if (array.shape(static_cast<py::ssize_t>(d)) != node.sizes[d] ||
        array.strides(static_cast<py::ssize_t>(d)) < 0)
      return false;
  if (contiguous(array)) {
    put_row(node, array.data(), array.ptr());
    return true;
  }
  std::vector<int64_t> strides;  // torch counts elements, numpy bytes
  for (size_t d = 0; d < node.sizes.size(); ++d) {
    if (array.strides(static_cast<py::ssize_t>(d)) % array.itemsize() != 0) return false;
    strides.push_back(array.strides(static_cast<py::ssize_t>(d)) / array.itemsize());
  }
  put_strided(node,
              {static_cast<uint8_t*>(const_cast<void*>(array.data())), node.sizes, strides, node.element},
              array.ptr());
  return true;
}

bool SampleTree::write_dict(Node& node, PyObject* value, bool exact_keys) {
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

bool SampleTree::write_children(Node& node, PyObject* value, bool exact_keys) {
  const bool same_type = node.kind == Kind::tuple  ? PyTuple_CheckExact(value)
                         : node.kind == Kind::list ? PyList_CheckExact(value)
                                                   : is_exactly(value, node.type);
  if (!same_type) return false;
  PyObject* const* items =
      PyList_CheckExact(value) ? PySequence_Fast_ITEMS(value) : &PyTuple_GET_ITEM(value, 0);
  const Py_ssize_t size = PyList_CheckExact(value) ? PyList_GET_SIZE(value) : PyTuple_GET_SIZE(value);
  if (static_cast<size_t>(size) != node.children.size()) return false;
  for (size_t i = 0; i < node.children.size(); ++i)
    if (!write(node.children[i], items[i], exact_keys)) return false;
  return true;
}

bool SampleTree::write(Node& node, PyObject* value, bool exact_keys) {
  switch (node.kind) {
    case Kind::tensor: return write_tensor(node, value);
    case Kind::array: return is_exactly(value, numpy_type("ndarray")) && write_array(node, as_array(value));
    case Kind::numpy_scalar:
      return is_exactly(value, node.type) && write_array(node, py::array::ensure(py::handle(value)));
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
    case Kind::tuple:
    case Kind::list:
    case Kind::named: return write_children(node, value, exact_keys);
  }
  return false;
}

}  // namespace millrace::tensors
