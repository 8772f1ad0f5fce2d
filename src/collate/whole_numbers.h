// with_type(type, f): f(T{}) for the C++ type T of a whole number of up to 64 bits, but uint64; nothing for
// any other type.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace millrace::collate {

template <class Use>
void with_type(base::DType type, const Use& use) {
  switch (type) {
    case base::DType::u8: return use(uint8_t{});
    case base::DType::i8: return use(int8_t{});
    case base::DType::u16: return use(uint16_t{});
    case base::DType::i16: return use(int16_t{});
    case base::DType::u32: return use(uint32_t{});
    case base::DType::i32: return use(int32_t{});
    case base::DType::i64: return use(int64_t{});
    default: return;
  }
}

}  // namespace millrace::collate
