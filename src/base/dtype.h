// What the engine asks of a DType (millrace/dtype.h) beyond its size and name: numpy's letters, and the way
// back from a name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "millrace/dtype.h"

namespace millrace::base {

using millrace::DType;
using millrace::dtype_bytes;
using millrace::dtype_name;

inline constexpr DType kDTypes[] = {DType::u8,  DType::i64, DType::f16, DType::bf16, DType::f32,
                                    DType::f64, DType::b8,  DType::i8,  DType::i16,  DType::i32,
                                    DType::u16, DType::u32, DType::u64, DType::c64,  DType::c128};

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
