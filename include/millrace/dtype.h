// DType: the element types that a field of a batch can have, under torch's names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace millrace {

enum class DType : uint8_t { u8, i64, f16, bf16, f32, f64, b8, i8, i16, i32, u16, u32, u64, c64, c128 };

constexpr size_t dtype_bytes(DType t) {
  switch (t) {
    case DType::u8:
    case DType::b8:
    case DType::i8: return 1;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
    case DType::u16: return 2;
    case DType::f32:
    case DType::i32:
    case DType::u32: return 4;
    case DType::i64:
    case DType::f64:
    case DType::u64:
    case DType::c64: return 8;
    case DType::c128: return 16;
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
    case DType::b8: return "bool";
    case DType::i8: return "int8";
    case DType::i16: return "int16";
    case DType::i32: return "int32";
    case DType::u16: return "uint16";
    case DType::u32: return "uint32";
    case DType::u64: return "uint64";
    case DType::c64: return "complex64";
    case DType::c128: return "complex128";
  }
  return "?";
}

// The DType of a C++ number; types without one do not compile.
template <class T>
struct DTypeOf {
  static constexpr DType value = [] {
    if constexpr (std::is_same_v<T, uint8_t>)
      return DType::u8;
    else if constexpr (std::is_same_v<T, bool>)
      return DType::b8;
    else if constexpr (std::is_same_v<T, int8_t>)
      return DType::i8;
    else if constexpr (std::is_same_v<T, int16_t>)
      return DType::i16;
    else if constexpr (std::is_same_v<T, int32_t>)
      return DType::i32;
    else if constexpr (std::is_same_v<T, int64_t>)
      return DType::i64;
    else if constexpr (std::is_same_v<T, uint16_t>)
      return DType::u16;
    else if constexpr (std::is_same_v<T, uint32_t>)
      return DType::u32;
    else if constexpr (std::is_same_v<T, uint64_t>)
      return DType::u64;
    else if constexpr (std::is_same_v<T, float>)
      return DType::f32;
    else if constexpr (std::is_same_v<T, double>)
      return DType::f64;
    else
      static_assert(sizeof(T) == 0, "no DType is of this type; write f16, bf16, c64 and c128 as bytes");
  }();
};

}  // namespace millrace
