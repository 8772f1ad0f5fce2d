// DLPack's table of C functions, by which tensors are handed over to torch and read from it. The structures
// are those of the public header. A table of another major version is not used; its `prev_api` may lead to an
// older one.
#pragma once

#include "millrace/dlpack_types.h"

namespace millrace::tensors::dlpack {

using namespace millrace::dlpack;

struct ExchangeHeader {
  Version version;
  ExchangeHeader* prev_api;
};

// What the capsule type(tensor).__dlpack_c_exchange_api__ points to. The functions need the GIL, and answer
// 0, or -1 with a Python exception set.
struct ExchangeApi {
  ExchangeHeader header;
  void* managed_tensor_allocator;
  int (*managed_tensor_from_py_object_no_sync)(void* object, VersionedTensor** out);
  int (*managed_tensor_to_py_object_no_sync)(VersionedTensor* tensor, void** out);
  int (*dltensor_from_py_object_no_sync)(void* object,
                                         Tensor* out);  // borrowed: of as long as the tensor is as it is
  int (*current_work_stream)(DeviceType type, int32_t id, void** out);
};

}  // namespace millrace::tensors::dlpack
