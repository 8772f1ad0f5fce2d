// scalar_type: torch's name of an element type. For the files of this folder only: it includes libtorch's.
#pragma once

#include <c10/core/ScalarType.h>

#include "base/dtype.h"
#include "millrace/error.h"

namespace millrace::torch_bridge {

inline at::ScalarType scalar_type(base::DType type) {
  switch (type) {
    case base::DType::u8: return at::kByte;
    case base::DType::i64: return at::kLong;
    case base::DType::f16: return at::kHalf;
    case base::DType::bf16: return at::kBFloat16;
    case base::DType::f32: return at::kFloat;
    case base::DType::f64: return at::kDouble;
    case base::DType::b8: return at::kBool;
    case base::DType::i8: return at::kChar;
    case base::DType::i16: return at::kShort;
    case base::DType::i32: return at::kInt;
    case base::DType::u16: return at::kUInt16;
    case base::DType::u32: return at::kUInt32;
    case base::DType::u64: return at::kUInt64;
    case base::DType::c64: return at::kComplexFloat;
    case base::DType::c128: return at::kComplexDouble;
  }
  throw Error(ErrorKind::invalid_argument, "unknown element type");
}

}  // namespace millrace::torch_bridge
