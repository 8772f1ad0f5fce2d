// Device: copies of batches to an accelerator.
#include "bindings.h"
#include "millrace/error.h"
#include "tensors/tensor_copier.h"
#include "tensors/tensor_device.h"
#include "trace/nvtx.h"

namespace millrace::python {
namespace {

std::vector<PyObject*> pointers(const py::list& tensors) {
  std::vector<PyObject*> result;
  for (const py::handle tensor : tensors) result.push_back(tensor.ptr());
  return result;
}

}  // namespace

std::shared_ptr<tensors::TensorDevice> tensor_device_of(const py::object& device) {
  if (py::isinstance<py::capsule>(device))
    return *device.cast<py::capsule>().get_pointer<std::shared_ptr<tensors::TensorDevice>>();
  return tensors::torch_device(device.cast<std::string>());
}

void bind_device(py::module_& m) {
  m.def(
      "nvtx",
      [](bool on) {
        const trace::RangeSink* sink = cuda::nvtx_sink();
        if (on && sink == nullptr)
          throw Error(
              ErrorKind::unavailable,
              "this millrace was built without CUDA, whose headers NVTX ranges come with; install the CUDA "
              "toolkit (nvcc) and build millrace again");
        trace::range_sink.store(on ? sink : nullptr, std::memory_order_release);
      },
      py::arg("on"));
  py::class_<device::BatchCopier::Ticket>(m, "CopyTicket");
  py::class_<tensors::TensorCopier>(m, "BatchCopier")
      .def(py::init([](const py::object& device) {
             return std::make_unique<tensors::TensorCopier>(tensor_device_of(device));
           }),
           py::arg("device"))
      .def(
          "copy",
          [](tensors::TensorCopier& copier, const py::list& tensors) {
            py::list result;
            for (PyObject* tensor : copier.copy(pointers(tensors)))
              result.append(py::reinterpret_steal<py::object>(tensor));
            return result;
          },
          py::arg("tensors"))
      .def("seal", &tensors::TensorCopier::seal)
      .def(
          "hand_out",
          [](tensors::TensorCopier& copier, const device::BatchCopier::Ticket& ticket,
             const py::list& tensors) { copier.hand_out(ticket, pointers(tensors)); },
          py::arg("ticket"), py::arg("tensors"))
      .def("record", &tensors::TensorCopier::record)
      .def("wait_for", &tensors::TensorCopier::wait_for, py::arg("ticket"))
      .def("enter", &tensors::TensorCopier::enter)
      .def("leave", &tensors::TensorCopier::leave)
      .def("close", &tensors::TensorCopier::close, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("stream",
                             [](const tensors::TensorCopier& copier) {
                               return py::make_tuple(copier.stream(), copier.device_index(),
                                                     copier.device_type());
                             })
      .def_property_readonly("lock_failure", &tensors::TensorCopier::lock_failure);
}

}  // namespace millrace::python
