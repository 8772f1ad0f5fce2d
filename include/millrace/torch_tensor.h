// as_torch(): a batch's field as a tensor of libtorch; and page-locked memory for batches. Header-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/Exception.h>

#include "millrace/batch.h"
#include "millrace/dtype.h"
#include "millrace/error.h"
#include "millrace/loader.h"

namespace millrace {

inline at::ScalarType torch_type(DType type) {
  switch (type) {
    case DType::u8: return at::kByte;
    case DType::i64: return at::kLong;
    case DType::f16: return at::kHalf;
    case DType::bf16: return at::kBFloat16;
    case DType::f32: return at::kFloat;
    case DType::f64: return at::kDouble;
    case DType::b8: return at::kBool;
    case DType::i8: return at::kChar;
    case DType::i16: return at::kShort;
    case DType::i32: return at::kInt;
    case DType::u16: return at::kUInt16;
    case DType::u32: return at::kUInt32;
    case DType::u64: return at::kUInt64;
    case DType::c64: return at::kComplexFloat;
    case DType::c128: return at::kComplexDouble;
  }
  throw Error(ErrorKind::invalid_argument, "torch_type: no element type has this number");
}

// The field as a tensor over the same memory, which the tensor keeps, beyond batch and loader. Of a ragged
// field: all its rows. Nothing is copied, so the batch sees writes to the tensor. Throws
// Error(invalid_argument) for an empty Field.
inline at::Tensor as_torch(const Field& field) {
  field.require_memory("as_torch()");
  return at::from_blob(
      field.data(), field.shape(), [owner = field.owner()](void*) {},
      at::TensorOptions().dtype(torch_type(field.dtype())));
}

// Where the samples of a ragged field begin, and its end: rows + 1 numbers, copied. Undefined for other
// fields, the empty one among them.
inline at::Tensor offsets_as_torch(const Field& field) {
  return field.ragged() ? at::tensor(field.offsets(), at::kLong) : at::Tensor();
}

// For LoaderOptions::memory: batches lie in page-locked memory, from which copies to a device run beside the
// program. libtorch's allocator keeps it for use again. Throws Error(unavailable) where libtorch sees no
// accelerator.
inline MemorySource pinned_memory() {
  if (at::accelerator::deviceCount() == 0)
    throw Error(ErrorKind::unavailable,
                "pinned_memory: page-locked memory is for copies to an accelerator, and libtorch sees none "
                "here; leave "
                "LoaderOptions::memory empty");
  return [](size_t bytes) -> std::pair<void*, std::shared_ptr<void>> {
    try {
      auto held = std::make_shared<at::Tensor>(
          at::empty({static_cast<int64_t>(bytes)}, at::TensorOptions().dtype(at::kByte).pinned_memory(true)));
      void* data = held->data_ptr();
      return {data, std::move(held)};
    } catch (const c10::Error& error) {
      throw Error(ErrorKind::unavailable,
                  "pinned_memory: libtorch has no " + std::to_string(bytes) +
                      " bytes of page-locked memory: " + error.what_without_backtrace());
    }
  };
}

}  // namespace millrace
