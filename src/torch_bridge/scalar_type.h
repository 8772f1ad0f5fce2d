// scalar_type: torch's name of an element type. For the files of this folder only: it includes libtorch's.
#pragma once

#include <c10/core/ScalarType.h>

#include "base/dtype.h"
#include "millrace/error.h"

namespace millrace {

inline at::ScalarType scalar_type(DType type) {
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
  throw Error(ErrorKind::invalid_argument, "unknown element type");
}

}  // namespace millrace
