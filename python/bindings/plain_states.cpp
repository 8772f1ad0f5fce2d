#include "plain_states.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "io/zlib_bytes.h"
#include "json/json_value.h"

namespace millrace::python {
namespace {

constexpr Py_ssize_t kLong = 256;  // letters of a text that the canonical text has only the sum of
constexpr int kMostDepth = 100;

class Walk {
 public:
  explicit Walk(std::string& text) : text_(text) {}

  // Null where there is more than JSON.
  py::object copy(PyObject* value, PyObject* names, int depth) {
    if (depth > kMostDepth) return {};
    if (PyDict_CheckExact(value)) return copy_dict(value, names, depth);
    return PyList_CheckExact(value) ? copy_list(value, depth) : py::object();
  }

 private:
  using Entry = std::pair<PyObject*, PyObject*>;

  py::object copy_dict(PyObject* dict, PyObject* names, int depth) {
    auto copied = py::reinterpret_steal<py::object>(PyDict_Copy(dict));
    if (!copied) throw py::error_already_set();
    // Sorted in the text. Of the copy, which no collection of garbage on the way changes.
    const size_t begin = entries_.size();
    PyObject *key = nullptr, *inner = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(copied.ptr(), &at, &key, &inner);) {
      if (!PyUnicode_CheckExact(key)) return {};
      entries_.emplace_back(key, inner);
    }
    const size_t end = entries_.size();
    std::sort(entries_.begin() + static_cast<std::ptrdiff_t>(begin), entries_.end(),
              [](const Entry& a, const Entry& b) { return PyUnicode_Compare(a.first, b.first) < 0; });
    text_ += '{';
    bool first = true;
    for (size_t i = begin; i < end; ++i) {
      const auto [name, value] = entries_[i];
      const size_t before = text_.size();
      if (!std::exchange(first, false)) text_ += ',';
      if (!write_text(name, false)) return {};
      text_ += ':';
      py::object twin;
      if (!write(value, depth, twin)) return {};
      if (twin && PyDict_SetItem(copied.ptr(), name, twin.ptr()) != 0) throw py::error_already_set();
      if (names == nullptr) continue;
      const int counts = PySequence_Contains(names, name);
      if (counts < 0) throw py::error_already_set();
      if (counts == 0) {
        text_.resize(before);
        first = text_.size() == 1;
      }
    }
    entries_.resize(begin);
    text_ += '}';
    return copied;
  }

  py::object copy_list(PyObject* list, int depth) {
    const Py_ssize_t count = PyList_GET_SIZE(list);
    auto copied = py::reinterpret_steal<py::object>(PyList_GetSlice(list, 0, count));
    if (!copied) throw py::error_already_set();
    text_ += '[';
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (i > 0) text_ += ',';
      py::object twin;
      if (!write(PyList_GET_ITEM(copied.ptr(), i), depth, twin)) return {};
      if (twin && PyList_SetItem(copied.ptr(), i, twin.release().ptr()) != 0) throw py::error_already_set();
    }
    text_ += ']';
    return copied;
  }

  // False: it is not of JSON. `twin`: the copy of a dict or list.
  bool write(PyObject* value, int depth, py::object& twin) {
    if (PyUnicode_CheckExact(value)) return write_text(value, true);
    if (value == Py_None) return append("null");
    if (value == Py_True) return append("true");
    if (value == Py_False) return append("false");
    if (PyLong_CheckExact(value)) return write_whole(value);
    if (PyFloat_CheckExact(value)) {
      json::write_number(text_, PyFloat_AS_DOUBLE(value));
      return true;
    }
    twin = copy(value, nullptr, depth + 1);
    return static_cast<bool>(twin);
  }

  bool append(std::string_view text) {
    text_ += text;
    return true;
  }

  bool write_whole(PyObject* value) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0) return false;
    return append(std::to_string(number));
  }

  bool write_text(PyObject* value, bool shortens) {
    Py_ssize_t bytes = 0;
    const char* const data = PyUnicode_AsUTF8AndSize(value, &bytes);
    if (data == nullptr) {
      PyErr_Clear();
      return false;
    }
    const auto size = static_cast<size_t>(bytes);
    const Py_ssize_t letters = PyUnicode_GET_LENGTH(value);
    if (!shortens || letters < kLong) {
      json::write_text(text_, {data, size});
      return true;
    }
    const std::span<const uint8_t> all(reinterpret_cast<const uint8_t*>(data), size);
    return append("\"\\u0000text " + std::to_string(letters) + " " + io::crc32_text(all) + "\"");
  }

  std::string& text_;
  std::vector<Entry> entries_;  // of the dicts that are being written, the innermost last; borrowed
};

}  // namespace

std::optional<PlainState> plain_state(PyObject* state, PyObject* names) {
  std::string text;
  text.reserve(1024);
  py::object copy = Walk(text).copy(state, names, 0);
  if (!copy) return std::nullopt;
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  return PlainState{std::move(copy), io::crc32_text(bytes)};
}

}  // namespace millrace::python
