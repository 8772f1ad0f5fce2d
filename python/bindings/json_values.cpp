#include "json_values.h"

#include <cstring>
#include <functional>

#include "base/dtype.h"
#include "json/json_reader.h"
#include "tensors/tensor.h"

namespace millrace::python {
namespace {

template <class T>
T take(const uint8_t*& at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  at += sizeof value;
  return value;
}

py::object owned(PyObject* object) {
  if (object == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object);
}

struct NotUtf8 {};

py::object tensor_of(const std::vector<int64_t>& sizes, base::DType type, const uint8_t* bytes, size_t size) {
  void* data = nullptr;
  py::object tensor = owned(tensors::new_tensor(sizes, type, &data));
  if (size > 0) std::memcpy(data, bytes, size);
  return tensor;
}

}  // namespace

py::object JsonValues::text(std::string_view content, bool ascii) const {
  const auto size = static_cast<Py_ssize_t>(content.size());
  if (ascii) {
    py::object made = owned(PyUnicode_New(size, 127));
    if (size > 0) std::memcpy(PyUnicode_DATA(made.ptr()), content.data(), content.size());
    return made;
  }
  PyObject* made = PyUnicode_DecodeUTF8(content.data(), size, nullptr);
  if (made == nullptr) {
    PyErr_Clear();
    throw NotUtf8();
  }
  return py::reinterpret_steal<py::object>(made);
}

py::object JsonValues::key(std::string_view name) {
  Known& known = keys_[std::hash<std::string_view>()(name) % keys_.size()];
  if (!known.object || known.name != name) {
    known.object = text(name, false);
    known.name = name;
  }
  return known.object;
}

py::object JsonValues::build(const uint8_t*& at) {
  const auto content = [&] {
    const auto size = static_cast<size_t>(take<uint64_t>(at));
    const std::string_view bytes(reinterpret_cast<const char*>(at), size);
    at += size;
    return bytes;
  };
  switch (static_cast<char>(*at++)) {
    case 'n': return py::none();
    case 't': return py::bool_(true);
    case 'f': return py::bool_(false);
    case 'i': return owned(PyLong_FromLongLong(take<int64_t>(at)));
    case 'u': return owned(PyLong_FromUnsignedLongLong(take<uint64_t>(at)));
    case 'd': return owned(PyFloat_FromDouble(take<double>(at)));
    case 's': return text(content(), false);
    case '[': {
      const auto count = static_cast<Py_ssize_t>(take<uint64_t>(at));
      py::object list = owned(PyList_New(count));
      for (Py_ssize_t i = 0; i < count; ++i) PyList_SET_ITEM(list.ptr(), i, build(at).release().ptr());
      return list;
    }
    default: {
      const auto count = take<uint64_t>(at);
      py::object dict = owned(PyDict_New());
      for (uint64_t i = 0; i < count; ++i) {
        ++at;  // a key is a text
        const py::object name = key(content());
        const py::object value = build(at);
        if (PyDict_SetItem(dict.ptr(), name.ptr(), value.ptr()) != 0) throw py::error_already_set();
      }
      return dict;
    }
  }
}

py::object JsonValues::list_of(const json::JsonField& field, std::span<const uint8_t> bytes) const {
  const size_t element = json::json_row_bytes(field);
  std::vector<int64_t> sizes{static_cast<int64_t>(element == 0 ? 0 : bytes.size() / element)};
  sizes.insert(sizes.end(), field.shape.begin(), field.shape.end());
  return tensor_of(sizes, field.type, bytes.data(), bytes.size());
}

py::object JsonValues::value(size_t number, const json::JsonColumn& column, size_t row) {
  const json::JsonField& field = fields_[number];
  const json::JsonColumn::Value& place = column.values[row];
  const std::span<const uint8_t> bytes(column.bytes.data() + place.begin, place.bytes);
  if (field.kind == json::JsonKind::list) return list_of(field, bytes);
  try {
    if (field.kind == json::JsonKind::text)
      return text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, place.ascii);
    const uint8_t* at = bytes.data();
    return build(at);
  } catch (const NotUtf8&) {
    return py::object();
  }
}

py::object JsonValues::number(size_t number, const uint8_t* data) {
  const json::JsonField& field = fields_[number];
  if (!field.shape.empty()) return tensor_of(field.shape, field.type, data, json::json_row_bytes(field));
  const uint8_t* at = data;
  if (field.type == base::DType::b8) return py::bool_(*data != 0);
  if (field.type == base::DType::i64) return owned(PyLong_FromLongLong(take<int64_t>(at)));
  if (field.type == base::DType::f64) return owned(PyFloat_FromDouble(take<double>(at)));
  const py::dtype type(base::dtype_name(field.type));
  return py::array(type, std::vector<py::ssize_t>{}, data).attr("__getitem__")(py::tuple());
}

}  // namespace millrace::python
