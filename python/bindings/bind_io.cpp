// ByteSource: files and objects of stores, as Python code opens them and the native readers take them.
#include "bindings.h"
#include "io/byte_source.h"

namespace millrace::python {
namespace {

py::bytes read_at(const ByteSource& source, int64_t offset, int64_t size) {
  if (offset < 0 || size < 0) throw py::value_error("offset and size should be 0 or more");
  PyObject* bytes = PyBytes_FromStringAndSize(nullptr, size);
  if (bytes == nullptr) throw py::error_already_set();
  auto result = py::reinterpret_steal<py::bytes>(bytes);
  auto* data = reinterpret_cast<uint8_t*>(PyBytes_AS_STRING(bytes));
  const py::gil_scoped_release release;
  source.read_at(offset, {data, static_cast<size_t>(size)});
  return result;
}

}  // namespace

void bind_io(py::module_& m) {
  // Python holds sources that nothing changes any more; pybind11's holders cannot say so.
  using SourcePtr = std::shared_ptr<ByteSource>;
  py::class_<ByteSource, SourcePtr>(m, "ByteSource")
      .def_property_readonly("name", [](const ByteSource& s) { return to_path(s.name()); })
      .def_property_readonly("size", &ByteSource::size)
      .def("read_at", &read_at, py::arg("offset"), py::arg("size"));
  m.def(
      "open_local_file",
      [](const py::object& path, const py::object& called, bool keep_open) {
        const std::string file = from_path(path), name = from_path(called);
        const py::gil_scoped_release release;  // a file server may take its time
        return std::const_pointer_cast<ByteSource>(open_local_file(file, name, keep_open));
      },
      py::arg("path"), py::arg("name") = "", py::arg("keep_open") = true);
}

}  // namespace millrace::python
