#include "torch_bridge/tensor_memory.h"

#include <pybind11/pybind11.h>  // before torch's header, so that both see this pybind11

#include <c10/core/RefcountedDeleter.h>
#include <torch/csrc/autograd/python_variable.h>

namespace millrace::torch_bridge {

bool is_tensor(PyObject* value) { return THPVariable_Check(value); }

TensorField form_of(PyObject* object) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  return {0, static_cast<int8_t>(tensor.scalar_type()), tensor.sizes().vec(), tensor.strides().vec()};
}

bool has_form(PyObject* object, const TensorField& form) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  return static_cast<int8_t>(tensor.scalar_type()) == form.type && tensor.sizes() == form.sizes &&
         tensor.strides() == form.strides && !tensor.requires_grad();
}

std::shared_ptr<const void> hold_memory(PyObject* object) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  const c10::Storage& storage = tensor.storage();
  const bool shared = pybind11::handle(object).attr("is_shared")().cast<bool>();
  if (shared || tensor.is_pinned()) return std::make_shared<c10::Storage>(storage);
  // A storage of its own over the same memory, which ends with the last of the two.
  return std::make_shared<c10::Storage>(c10::newStorageImplFromRefcountedDataPtr(storage));
}

bool may_be_mapped(PyObject* object) {
  return !THPVariable_Unpack(object).storage().unsafeGetStorageImpl()->resizable();
}

}  // namespace millrace::torch_bridge
