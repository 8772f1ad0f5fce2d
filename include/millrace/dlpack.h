// DLPack: a batch's field for another library, without a copy. Header-only, and needs no torch.
//
//   #include <dlpack/dlpack.h>                       // whichever DLPack header the program has
//   DLManagedTensor* tensor = millrace::to_dlpack<DLManagedTensor>(batch["image"]);
//   ...
//   tensor->deleter(tensor);                         // by its taker, once
//
// The function fills the structure that it is given, so it agrees with any copy of the standard's header, and
// nothing here is in the way of one. Programs without such a header leave the type out and get
// dlpack::ManagedTensor, which has the standard's layout: to_dlpack(field).
//
// The tensor keeps the field's memory, beyond batch and loader, until its deleter is called, on any thread.
// Strides are given, dense. Of ragged fields it has all rows; where samples begin is Field::offsets().
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "millrace/batch.h"
#include "millrace/dlpack_types.h"

namespace millrace {

// `Managed`: DLManagedTensor or DLManagedTensorVersioned of any copy of the standard's header, or one of the
// above. Throws Error(invalid_argument) for an empty Field, and std::bad_alloc.
template <class Managed = dlpack::ManagedTensor>
Managed* to_dlpack(const Field& field) {
  field.require_memory("to_dlpack()");
  struct Lease {  // what the tensor points to, and the tensor itself
    Field field;
    std::vector<int64_t> shape, strides;
    Managed tensor;
  };
  auto* lease = new Lease{field, field.shape(), std::vector<int64_t>(field.shape().size(), 1), Managed{}};
  for (size_t i = lease->shape.size(); i-- > 1;) lease->strides[i - 1] = lease->strides[i] * lease->shape[i];

  Managed& managed = lease->tensor;
  auto& tensor = managed.dl_tensor;
  const dlpack::DataType type = dlpack::type_of(field.dtype());
  tensor.data = field.data();
  tensor.device.device_type = static_cast<decltype(tensor.device.device_type)>(dlpack::kHost.device_type);
  tensor.device.device_id = 0;
  tensor.ndim = static_cast<int32_t>(lease->shape.size());
  tensor.dtype.code = static_cast<decltype(tensor.dtype.code)>(type.code);
  tensor.dtype.bits = type.bits;
  tensor.dtype.lanes = type.lanes;
  tensor.shape = lease->shape.data();
  tensor.strides = lease->strides.data();
  tensor.byte_offset = 0;
  managed.manager_ctx = lease;
  managed.deleter = [](Managed* self) { delete static_cast<Lease*>(self->manager_ctx); };
  if constexpr (requires { managed.version.major; }) {
    managed.version.major = dlpack::kMajor;
    managed.version.minor = 0;
    managed.flags = 0;
  }
  return &managed;
}

}  // namespace millrace
