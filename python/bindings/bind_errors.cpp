// millrace::Error as Python exceptions, and the two exception types that are ours.
#include "bindings.h"
#include "codecs/image_header.h"
#include "millrace/error.h"

namespace millrace::python {
namespace {

// Held for the life of the process: translators may run until the interpreter ends.
PyObject* corrupt_data_error = nullptr;
PyObject* unavailable_error = nullptr;

PyObject* new_exception(py::module_& m, const char* name, PyObject* base, const char* doc) {
  PyObject* type = PyErr_NewExceptionWithDoc((std::string("millrace.") + name).c_str(), doc, base, nullptr);
  if (!type) throw py::error_already_set();
  m.attr(name) = py::handle(type);
  return type;
}

// Returns CorruptDataError, or the subclass of it and of Pillow's error for this fault. millrace.errors makes
// these subclasses if Pillow is installed.
py::object type_of_fault(int fault) {
  if (fault == codecs::kNotIdentified || fault == codecs::kTooManyPixels) {
    try {
      return py::module_::import("millrace.errors")
          .attr(fault == codecs::kNotIdentified ? "UnidentifiedImageError" : "DecompressionBombError");
    } catch (py::error_already_set&) {  // no Pillow
    }
  }
  return py::reinterpret_borrow<py::object>(corrupt_data_error);
}

void raise(const Error& error) {
  const py::str message = to_path(error.what());  // messages carry file names, which may hold any bytes
  switch (error.kind()) {
    case ErrorKind::invalid_argument: PyErr_SetObject(PyExc_ValueError, message.ptr()); return;
    case ErrorKind::out_of_range: PyErr_SetObject(PyExc_IndexError, message.ptr()); return;
    case ErrorKind::shape_mismatch: PyErr_SetObject(PyExc_RuntimeError, message.ptr()); return;
    case ErrorKind::unavailable: PyErr_SetObject(unavailable_error, message.ptr()); return;
    case ErrorKind::corrupt_data: {
      const py::object type = type_of_fault(error.code());
      const py::object exception = type(message);
      exception.attr("path") = to_path(error.path());
      exception.attr("offset") = error.offset();
      PyErr_SetObject(type.ptr(), exception.ptr());
      return;
    }
    case ErrorKind::not_found:
    case ErrorKind::system: {
      PyObject* type = error.kind() == ErrorKind::not_found ? PyExc_FileNotFoundError : PyExc_OSError;
      if (error.code() == 0) {
        PyErr_SetObject(type, message.ptr());
        return;
      }
      // Python adds the file's name to the text by itself.
      std::string text = error.what();
      const std::string name = " '" + error.path() + "'";
      if (const size_t at = text.find(name); !error.path().empty() && at != std::string::npos)
        text.erase(at, name.size());
      // With an errno, OSError picks the subclass (PermissionError, IsADirectoryError, ...) by itself.
      const py::object exception = py::reinterpret_borrow<py::object>(PyExc_OSError)(
          error.code(), to_path(text), to_path(error.path()));
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
      return;
    }
  }
}

}  // namespace

void bind_errors(py::module_& m) {
  corrupt_data_error =
      new_exception(m, "CorruptDataError", PyExc_OSError,
                    "A file's bytes are damaged or not what they should be. An OSError, as Pillow's are.\n\n"
                    "`path`: the file; `offset`: byte offset of the damage, -1 when unknown.");
  // Defaults on the class: an exception that torch rebuilt from its text in another process has them too.
  m.attr("CorruptDataError").attr("path") = "";
  m.attr("CorruptDataError").attr("offset") = -1;
  unavailable_error = new_exception(
      m, "UnavailableError", PyExc_RuntimeError,
      "Something millrace can do, but not here or not in this combination; the message says what "
      "to change.");
  py::register_local_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const Error& error) {
      raise(error);
    }
  });
}

std::string from_path(py::handle path) {
  PyObject* bytes = nullptr;
  if (!PyUnicode_FSConverter(path.ptr(), &bytes)) throw py::error_already_set();
  return std::string(py::reinterpret_steal<py::bytes>(bytes));
}

std::string to_text(py::handle value) {
  const py::str text(value);
  PyObject* bytes = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape");
  if (!bytes) {
    PyErr_Clear();
    bytes = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace");
  }
  if (!bytes) throw py::error_already_set();
  return std::string(py::reinterpret_steal<py::bytes>(bytes));
}

py::str to_path(std::string_view path) {
  PyObject* text = PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size()));
  if (!text) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(text);
}

}  // namespace millrace::python
