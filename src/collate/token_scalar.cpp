// What the kernels compute, one element after the other.
#include <cstring>

#include "collate/token_kernels.h"
#include "collate/whole_numbers.h"

namespace millrace {

bool widens(DType from, DType to) {
  switch (from) {
    case DType::u8: case DType::i8: case DType::u16: case DType::i16: return to == DType::i32 || to == DType::i64;
    case DType::u32: case DType::i32: return to == DType::i64;
    default: return false;
  }
}

namespace scalar {
namespace {

template <class T>
T element(const void* in, size_t i) {
  T value;
  std::memcpy(&value, static_cast<const uint8_t*>(in) + i * sizeof(T), sizeof(T));
  return value;
}

template <class From, class To>
void widen_all(const void* in, size_t count, void* out) {
  for (size_t i = 0; i < count; ++i) {
    const To value = static_cast<To>(element<From>(in, i));
    std::memcpy(static_cast<uint8_t*>(out) + i * sizeof(To), &value, sizeof(To));
  }
}

}  // namespace

void widen(const void* in, DType from, DType to, size_t count, void* out, bool) {
  with_type(from, [&]<class From>(From) {
    if (to == DType::i64) widen_all<From, int64_t>(in, count, out);
    else widen_all<From, int32_t>(in, count, out);
  });
}

size_t find_equal(const void* in, DType type, size_t begin, size_t count, int64_t value) {
  size_t i = begin;
  with_type(type, [&]<class T>(T) {
    while (i < count && static_cast<int64_t>(element<T>(in, i)) != value) ++i;
  });
  return i;
}

size_t find_outside(const void* in, DType type, size_t count, int64_t highest) {
  size_t i = 0;
  with_type(type, [&]<class T>(T) {
    for (; i < count; ++i)
      if (const auto value = static_cast<int64_t>(element<T>(in, i)); value < 0 || value > highest) return;
  });
  return i;
}

}  // namespace scalar
}  // namespace millrace
