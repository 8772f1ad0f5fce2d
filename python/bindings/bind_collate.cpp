// default_collate in C++, and whether torch's profilers listen: asked once or twice for every batch, so
// without pybind11's calls.
#include "bindings.h"
#include "core/batch_ring.h"
#include "tensors/row_writer.h"
#include "tensors/sample_collator.h"
#include "tensors/torch_api.h"

namespace millrace::python {
namespace {

// `ring`: a capsule.
PyObject* collate(PyObject* ring, PyObject* samples) {
  try {
    auto& slots = *py::reinterpret_borrow<py::capsule>(ring).get_pointer<core::BatchRing>();
    PyObject* const batch = tensors::collate_samples(samples, slots);
    return batch != nullptr ? batch : Py_NewRef(Py_NotImplemented);
  } catch (const tensors::PythonError&) {
    return nullptr;
  }
}

PyObject* convert(PyObject* others, PyObject* sample) {
  try {
    return tensors::convert_sample(sample, others);
  } catch (const tensors::PythonError&) {
    return nullptr;
  }
}

PyObject* heard(PyObject*, PyObject*) { return PyBool_FromLong(tensors::ranges_are_heard()); }

PyMethodDef collate_method{"collate", collate, METH_O, nullptr};
PyMethodDef convert_method{"convert_sample", convert, METH_O, nullptr};
PyMethodDef heard_method{"ranges_are_heard", heard, METH_NOARGS, nullptr};

}  // namespace

void bind_collate(py::module_& m) {
  m.def("sample_collator", [] {
    const py::capsule ring(new core::BatchRing(1),
                           [](void* made) { delete static_cast<core::BatchRing*>(made); });
    return py::reinterpret_steal<py::object>(PyCFunction_New(&collate_method, ring.ptr()));
  });
  m.def(
      "sample_converter",
      [](const py::object& others) {
        return py::reinterpret_steal<py::object>(PyCFunction_New(&convert_method, others.ptr()));
      },
      py::arg("others"));
  m.def("missing_in_torch", &tensors::missing_in_torch);
  m.attr("ranges_are_heard") = py::reinterpret_steal<py::object>(PyCFunction_New(&heard_method, nullptr));
}

}  // namespace millrace::python
