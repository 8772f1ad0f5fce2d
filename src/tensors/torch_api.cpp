#include "tensors/torch_api.h"

#include <dlfcn.h>
#include <pybind11/pybind11.h>

#include "tensors/sample_collator.h"
#include "tensors/tensor_fields.h"
#include "tensors/tensor_memory.h"
#include "tensors/torch_blocks.h"

namespace millrace::tensors {
namespace {

namespace py = pybind11;

TorchApi the_api;

// Of this major version; the newest comes first.
const dlpack::ExchangeApi* exchange_of(const py::handle& tensor) {
  const py::object capsule = py::getattr(tensor, "__dlpack_c_exchange_api__", py::none());
  if (!capsule.is_none()) {
    auto* header =
        static_cast<dlpack::ExchangeHeader*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    if (header == nullptr) throw py::error_already_set();
    while (header != nullptr && header->version.major != dlpack::kMajor) header = header->prev_api;
    const auto* api = reinterpret_cast<const dlpack::ExchangeApi*>(header);
    if (api != nullptr && api->dltensor_from_py_object_no_sync != nullptr) return api;
  }
  throw py::import_error(
      "this torch does not hand over tensors by DLPack 1; millrace needs torch 2.11 or newer");
}

}  // namespace

bool TensorFlag::operator()(PyObject* tensor) const {
  PyObject* value = nullptr;
  if (Py_IS_TYPE(descriptor_, &PyGetSetDescr_Type)) {
    const PyGetSetDef& getter = *reinterpret_cast<PyGetSetDescrObject*>(descriptor_)->d_getset;
    value = getter.get(tensor, getter.closure);
  } else if (Py_IS_TYPE(descriptor_, &PyMethodDescr_Type) &&
             reinterpret_cast<PyMethodDescrObject*>(descriptor_)->d_method->ml_flags == METH_NOARGS) {
    value = reinterpret_cast<PyMethodDescrObject*>(descriptor_)->d_method->ml_meth(tensor, nullptr);
  } else if (PyObject* bound = Py_TYPE(descriptor_)->tp_descr_get == nullptr
                                   ? nullptr
                                   : Py_TYPE(descriptor_)
                                         ->tp_descr_get(descriptor_, tensor,
                                                        reinterpret_cast<PyObject*>(Py_TYPE(tensor)))) {
    value = PyCallable_Check(bound) != 0 ? PyObject_CallNoArgs(bound) : Py_NewRef(bound);
    Py_DECREF(bound);
  }
  const int truth = value == nullptr ? -1 : PyObject_IsTrue(value);
  Py_XDECREF(value);
  if (truth < 0) throw py::error_already_set();
  return truth != 0;
}

void connect_to_torch() {
  const py::module_ torch = py::module_::import("torch");
  const py::object tensor = torch.attr("Tensor"), internal = torch.attr("_C");
  TorchApi api;
  api.exchange = exchange_of(tensor);
  // Kept for ever, as torch keeps them.
  const auto kept = [](const py::object& object) { return py::object(object).release().ptr(); };
  api.tensor = reinterpret_cast<PyTypeObject*>(kept(tensor));
  const auto flag = [&](const char* name) {  // as the class has it, not bound
    for (const py::handle base : tensor.attr("__mro__"))
      if (const py::object own = base.attr("__dict__"); own.contains(name))
        return TensorFlag(kept(own[name]));
    throw py::attribute_error(name);
  };
  api.requires_grad = flag("requires_grad");
  api.is_neg = flag("is_neg");
  api.is_conj = flag("is_conj");
  api.torch = kept(torch);
  api.stack = kept(torch.attr("stack"));
  api.dispatch_modes = kept(internal.attr("_len_torch_dispatch_stack"));
  api.function_modes = kept(internal.attr("_len_torch_function_stack"));
  the_api = api;
  if (auto fields = TensorFields::of_torch()) the_api.fields = new TensorFields(*fields);  // for ever
}

const TorchApi& torch_api() { return the_api; }

void* torch_symbol(const char* library, const char* name) {
  void* handle = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* address = ::dlsym(handle, name);
  ::dlclose(handle);  // which torch keeps open
  return address;
}

std::vector<std::string> missing_in_torch() {
  std::vector<std::string> missing;
  if (!can_hold_memory())
    missing.push_back(
        "a second owner for a tensor's memory, so the training loop's thread copies rows of tensors");
  if (!has_torch_blocks())
    missing.push_back("blocks of its own memory, so copies to a GPU wait for each batch");
  if (the_api.fields == nullptr)
    missing.push_back(
        "its functions for compiled models as they were, so small tensors are read more slowly");
  if (!knows_who_listens()) missing.push_back("whether a profiler listens, so each batch is announced to it");
  return missing;
}

}  // namespace millrace::tensors
