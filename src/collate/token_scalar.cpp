// What the kernels compute, one element after the other.
#include <cstring>

#include "collate/token_kernels.h"
#include "collate/whole_numbers.h"

namespace millrace::collate {

bool widens(base::DType from, base::DType to) {
  switch (from) {
    case base::DType::u8:
    case base::DType::i8:
    case base::DType::u16:
    case base::DType::i16: return to == base::DType::i32 || to == base::DType::i64;
    case base::DType::u32:
    case base::DType::i32: return to == base::DType::i64;
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

void widen(const void* in, base::DType from, base::DType to, size_t count, void* out, bool) {
  with_type(from, [&]<class From>(From) {
    if (to == base::DType::i64)
      widen_all<From, int64_t>(in, count, out);
    else
      widen_all<From, int32_t>(in, count, out);
  });
}

size_t find_equal(const void* in, base::DType type, size_t begin, size_t count, int64_t value) {
  size_t i = begin;
  with_type(type, [&]<class T>(T) {
    while (i < count && static_cast<int64_t>(element<T>(in, i)) != value) ++i;
  });
  return i;
}

size_t find_outside(const void* in, base::DType type, size_t count, int64_t highest) {
  size_t i = 0;
  with_type(type, [&]<class T>(T) {
    for (; i < count; ++i)
      if (const auto value = static_cast<int64_t>(element<T>(in, i)); value < 0 || value > highest) return;
  });
  return i;
}

}  // namespace scalar
}  // namespace millrace::collate
