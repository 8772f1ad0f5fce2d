// Device: copies of batches to an accelerator.
#include <c10/util/Exception.h>

#include "bindings.h"
#include "millrace/error.h"
#include "torch_bridge/tensor_copier.h"
#include "torch_bridge/tensor_device.h"
#include "trace/nvtx.h"

namespace millrace::python {
namespace {

std::vector<PyObject*> pointers(const py::list& tensors) {
  std::vector<PyObject*> result;
  for (const py::handle tensor : tensors) result.push_back(tensor.ptr());
  return result;
}

}  // namespace

std::shared_ptr<torch_bridge::TensorDevice> tensor_device_of(const py::object& device) {
  if (py::isinstance<py::capsule>(device))
    return *device.cast<py::capsule>().get_pointer<std::shared_ptr<torch_bridge::TensorDevice>>();
  return torch_bridge::torch_device(at::Device(device.cast<std::string>()));
}

void bind_device(py::module_& m) {
  py::register_local_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const c10::OutOfMemoryError& error) {
      PyErr_SetString(py::module_::import("torch").attr("OutOfMemoryError").ptr(),
                      error.what_without_backtrace());
    } catch (const c10::Error& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
    }
  });
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
  py::class_<torch_bridge::TensorCopier>(m, "BatchCopier")
      .def(py::init([](const py::object& device) {
             return std::make_unique<torch_bridge::TensorCopier>(tensor_device_of(device));
           }),
           py::arg("device"))
      .def(
          "copy",
          [](torch_bridge::TensorCopier& copier, const py::list& tensors) {
            py::list result;
            for (PyObject* tensor : copier.copy(pointers(tensors)))
              result.append(py::reinterpret_steal<py::object>(tensor));
            return result;
          },
          py::arg("tensors"))
      .def("seal", &torch_bridge::TensorCopier::seal)
      .def(
          "hand_out",
          [](torch_bridge::TensorCopier& copier, const device::BatchCopier::Ticket& ticket,
             const py::list& tensors) { copier.hand_out(ticket, pointers(tensors)); },
          py::arg("ticket"), py::arg("tensors"))
      .def("record", &torch_bridge::TensorCopier::record)
      .def("wait_for", &torch_bridge::TensorCopier::wait_for, py::arg("ticket"))
      .def("enter", &torch_bridge::TensorCopier::enter)
      .def("leave", &torch_bridge::TensorCopier::leave)
      .def("close", &torch_bridge::TensorCopier::close, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("stream",
                             [](const torch_bridge::TensorCopier& copier) {
                               return py::make_tuple(copier.stream(), copier.device_index(),
                                                     copier.device_type());
                             })
      .def_property_readonly("lock_failure", &torch_bridge::TensorCopier::lock_failure);
}

}  // namespace millrace::python
