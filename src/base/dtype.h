// DType: the element types that a field of a batch can have.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace {

enum class DType : uint8_t { u8, i64, f16, bf16, f32, f64 };

constexpr size_t dtype_bytes(DType t) {
  switch (t) {
    case DType::u8: return 1;
    case DType::f16: case DType::bf16: return 2;
    case DType::f32: return 4;
    case DType::i64: case DType::f64: return 8;
  }
  return 0;
}

constexpr const char* dtype_name(DType t) {
  switch (t) {
    case DType::u8: return "uint8";
    case DType::i64: return "int64";
    case DType::f16: return "float16";
    case DType::bf16: return "bfloat16";
    case DType::f32: return "float32";
    case DType::f64: return "float64";
  }
  return "?";
}

}  // namespace millrace
