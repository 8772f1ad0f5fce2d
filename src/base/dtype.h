// DType: the element types that a field of a batch can have, under torch's names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace::base {

enum class DType : uint8_t { u8, i64, f16, bf16, f32, f64, b8, i8, i16, i32, u16, u32, u64, c64, c128 };

inline constexpr DType kDTypes[] = {DType::u8,  DType::i64, DType::f16, DType::bf16, DType::f32,
                                    DType::f64, DType::b8,  DType::i8,  DType::i16,  DType::i32,
                                    DType::u16, DType::u32, DType::u64, DType::c64,  DType::c128};

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

// numpy's letter for the kind of number; bfloat16, which numpy does not have, has none.
constexpr char dtype_kind(DType t) {
  switch (t) {
    case DType::b8: return 'b';
    case DType::u8:
    case DType::u16:
    case DType::u32:
    case DType::u64: return 'u';
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64: return 'i';
    case DType::f16:
    case DType::f32:
    case DType::f64: return 'f';
    case DType::c64:
    case DType::c128: return 'c';
    case DType::bf16: return 0;
  }
  return 0;
}

constexpr std::optional<DType> dtype_of(char kind, size_t bytes) {
  for (const DType type : kDTypes)
    if (kind == dtype_kind(type) && bytes == dtype_bytes(type)) return type;
  return std::nullopt;
}

constexpr std::optional<DType> dtype_named(std::string_view name) {
  for (const DType type : kDTypes)
    if (name == dtype_name(type)) return type;
  return std::nullopt;
}

}  // namespace millrace::base
