// default_collate in C++, and whether torch's profilers listen: asked once or twice for every batch, so
// without pybind11's calls.
#include "bindings.h"
#include "torch_bridge/row_writer.h"
#include "torch_bridge/sample_collator.h"

namespace millrace::python {
namespace {

PyObject* collate(PyObject*, PyObject* samples) {
  try {
    PyObject* const batch = torch_bridge::collate_samples(samples);
    return batch != nullptr ? batch : Py_NewRef(Py_NotImplemented);
  } catch (const torch_bridge::PythonError&) {
    return nullptr;
  }
}

PyObject* convert(PyObject* others, PyObject* sample) {
  try {
    return torch_bridge::convert_sample(sample, others);
  } catch (const torch_bridge::PythonError&) {
    return nullptr;
  }
}

PyObject* heard(PyObject*, PyObject*) { return PyBool_FromLong(torch_bridge::ranges_are_heard()); }

PyMethodDef collate_method{"collate_samples", collate, METH_O, nullptr};
PyMethodDef convert_method{"convert_sample", convert, METH_O, nullptr};
PyMethodDef heard_method{"ranges_are_heard", heard, METH_NOARGS, nullptr};

}  // namespace

void bind_collate(py::module_& m) {
  m.attr("collate_samples") = py::reinterpret_steal<py::object>(PyCFunction_New(&collate_method, nullptr));
  m.def(
      "sample_converter",
      [](const py::object& others) {
        return py::reinterpret_steal<py::object>(PyCFunction_New(&convert_method, others.ptr()));
      },
      py::arg("others"));
  m.attr("ranges_are_heard") = py::reinterpret_steal<py::object>(PyCFunction_New(&heard_method, nullptr));
}

}  // namespace millrace::python
