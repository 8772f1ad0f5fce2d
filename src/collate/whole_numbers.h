// with_type(type, f): f(T{}) for the C++ type T of a whole number of up to 64 bits, but uint64; nothing for any other type.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace millrace {

template <class Use>
void with_type(DType type, const Use& use) {
  switch (type) {
    case DType::u8: return use(uint8_t{});
    case DType::i8: return use(int8_t{});
    case DType::u16: return use(uint16_t{});
    case DType::i16: return use(int16_t{});
    case DType::u32: return use(uint32_t{});
    case DType::i32: return use(int32_t{});
    case DType::i64: return use(int64_t{});
    default: return;
  }
}

}  // namespace millrace
