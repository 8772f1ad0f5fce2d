// The structures of DLPack's binary interface 1.x (https://dmlc.github.io/dlpack), as far as they are used
// here: written after the standard's description, which no minor version changes. Fields carry its names.
#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/dtype.h"

namespace millrace::dlpack {

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
inline constexpr Device kHost{DeviceType::cpu, 0};

enum class TypeCode : uint8_t {
  integer = 0,
  unsigned_integer = 1,
  floating = 2,
  bfloat = 4,
  complex = 5,
  boolean = 6
};

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

// The standard's DLManagedTensor. The deleters may be called on any thread, and free the structure, too.
struct ManagedTensor {
  Tensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(ManagedTensor* self);
};

// The standard's DLManagedTensorVersioned.
struct VersionedTensor {
  Version version;
  void* manager_ctx;
  void (*deleter)(VersionedTensor* self);
  uint64_t flags;
  Tensor dl_tensor;
};

static_assert(sizeof(void*) != 8 ||
              (sizeof(Tensor) == 48 && offsetof(Tensor, shape) == 24 && offsetof(Tensor, byte_offset) == 40 &&
               sizeof(ManagedTensor) == 64 && offsetof(VersionedTensor, dl_tensor) == 32 &&
               sizeof(VersionedTensor) == 80));

constexpr DataType type_of(DType type) {
  const auto bits = static_cast<uint8_t>(8 * dtype_bytes(type));
  switch (type) {
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64: return {TypeCode::integer, bits, 1};
    case DType::u8:
    case DType::u16:
    case DType::u32:
    case DType::u64: return {TypeCode::unsigned_integer, bits, 1};
    case DType::f16:
    case DType::f32:
    case DType::f64: return {TypeCode::floating, bits, 1};
    case DType::bf16: return {TypeCode::bfloat, bits, 1};
    case DType::c64:
    case DType::c128: return {TypeCode::complex, bits, 1};
    case DType::b8: return {TypeCode::boolean, bits, 1};
  }
  return {};
}

}  // namespace millrace::dlpack
