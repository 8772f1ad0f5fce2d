// DLPack 1.x: the structures by which tensors are handed over between libraries, as far as they are used
// here.
//
// Written after the standard's description of its binary interface (https://dmlc.github.io/dlpack), which no
// minor version changes: torch fills these structures, and reads those that are filled here. Fields carry the
// standard's names. A table of another major version is not used; an older one may hang behind it.
#pragma once

#include <cstdint>

namespace millrace::tensors::dlpack {

struct Version {
  uint32_t major, minor;
};
inline constexpr uint32_t kMajor = 1;

// Of devices, only whether it is the host's memory matters here.
enum class DeviceType : int32_t { cpu = 1, cuda_host = 3, rocm_host = 11 };

struct Device {
  DeviceType device_type;
  int32_t device_id;
};

enum class TypeCode : uint8_t {
  integer = 0,
  unsigned_integer = 1,
  floating = 2,
  bfloat = 4,
  complex = 5,
  boolean = 6
};

inline constexpr Device kHost{DeviceType::cpu, 0};

struct DataType {
  TypeCode code;
  uint8_t bits;
  uint16_t lanes;
};

// Sizes and strides count elements.
struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

// The deleter may be called on any thread, with the GIL or without, and frees the structure, too.
struct ManagedTensor {
  Version version;
  void* manager_ctx;
  void (*deleter)(ManagedTensor*);
  uint64_t flags;
  Tensor dl_tensor;
};

struct ExchangeHeader {
  Version version;
  ExchangeHeader* prev_api;
};

// What the capsule type(tensor).__dlpack_c_exchange_api__ points to. The functions need the GIL, and answer
// 0, or -1 with a Python exception set.
struct ExchangeApi {
  ExchangeHeader header;
  void* managed_tensor_allocator;
  int (*managed_tensor_from_py_object_no_sync)(void* object, ManagedTensor** out);
  int (*managed_tensor_to_py_object_no_sync)(ManagedTensor* tensor, void** out);
  int (*dltensor_from_py_object_no_sync)(void* object,
                                         Tensor* out);  // borrowed: of as long as the tensor is as it is
  int (*current_work_stream)(DeviceType type, int32_t id, void** out);
};

}  // namespace millrace::tensors::dlpack
