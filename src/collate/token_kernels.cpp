// The vector kernels. This file is compiled once per instruction set (Highway's foreach_target) and the best
// one is chosen at run time.
#include "collate/token_kernels.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "collate/whole_numbers.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collate/token_kernels.cpp"
#include "base/simd_targets.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::collate {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

using scalar::find_equal;
using scalar::find_outside;
using scalar::widen;

#else

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Wide32 = std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>;
template <class T>
using Wide64 = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;

// As many elements as 32 bits of each fill a vector; the halves of that become two vectors of 64 bits.
template <class From, class To, bool kStream>
struct Widener {
  static constexpr hn::ScalableTag<Wide32<From> > d32{};
  static constexpr hn::Rebind<From, decltype(d32)> narrow{};
  static constexpr hn::ScalableTag<Wide64<From> > d64{};
  static constexpr hn::Half<decltype(d32)> half{};
  static HWY_INLINE size_t lanes() { return hn::Lanes(d32); }

  template <class D, class T>
  static HWY_INLINE void store(hn::Vec<D> v, D d, T* out) {
    auto* const to = reinterpret_cast<hn::TFromD<D>*>(out);
    if constexpr (kStream)
      hn::Stream(v, d, to);
    else
      hn::StoreU(v, d, to);
  }

  static HWY_INLINE hn::Vec<decltype(d32)> load(const From* in) {
    if constexpr (sizeof(From) == 4)
      return hn::LoadU(d32, in);
    else
      return hn::PromoteTo(d32, hn::LoadU(narrow, in));
  }

  static HWY_INLINE void group(const From* in, To* out) {
    const auto v = load(in);
    if constexpr (sizeof(To) == 4) {
      store(v, d32, out);
    } else {
      store(hn::PromoteTo(d64, hn::LowerHalf(half, v)), d64, out);
      store(hn::PromoteTo(d64, hn::UpperHalf(half, v)), d64, out + hn::Lanes(d64));
    }
  }
};

// What does not fill a vector. Neither side needs to be aligned.
template <class From, class To>
HWY_INLINE void widen_rest(const From* in, size_t count, To* out) {
  for (size_t i = 0; i < count; ++i) {
    From number;
    std::memcpy(&number, reinterpret_cast<const uint8_t*>(in) + i * sizeof(From), sizeof(From));
    const To value = static_cast<To>(number);
    std::memcpy(reinterpret_cast<uint8_t*>(out) + i * sizeof(To), &value, sizeof(To));
  }
}

template <class From, class To, bool kStream>
HWY_INLINE void widen_from(const From* in, size_t count, To* out) {
  using W = Widener<From, To, kStream>;
  const size_t lanes = W::lanes();
  size_t i = 0;
  if constexpr (kStream) {  // streamed stores are aligned
    const size_t past = reinterpret_cast<uintptr_t>(out) / sizeof(To) % lanes;
    i = std::min(count, past ? lanes - past : 0);
    widen_rest(in, i, out);
  }
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    W::group(in + i, out + i);
    W::group(in + i + lanes, out + i + lanes);
  }
  if (i + lanes <= count) {
    W::group(in + i, out + i);
    i += lanes;
  }
  widen_rest(in + i, count - i, out + i);
  if constexpr (kStream) hwy::FlushStream();  // ordered with nothing else
}

template <class From, class To>
HWY_INLINE void widen_to(const void* in, size_t count, void* out, bool past_caches) {
  const auto* from = static_cast<const From*>(in);
  auto* to = static_cast<To*>(out);
  if (past_caches && reinterpret_cast<uintptr_t>(out) % sizeof(To) == 0)
    widen_from<From, To, true>(from, count, to);
  else
    widen_from<From, To, false>(from, count, to);
}

void widen(const void* in, base::DType from, base::DType to, size_t count, void* out, bool past_caches) {
  with_type(from, [&]<class From>(From) HWY_ATTR {
    if constexpr (sizeof(From) < 8)
      if (to == base::DType::i64) return widen_to<From, int64_t>(in, count, out, past_caches);
    if constexpr (sizeof(From) < 4) widen_to<From, int32_t>(in, count, out, past_caches);
  });
}

template <class T, class Wanted>
HWY_INLINE size_t find(const T* in, size_t begin, size_t count, const Wanted& wanted) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = begin;
  for (; i + lanes <= count; i += lanes)
    if (const auto found = wanted(hn::LoadU(d, in + i)); !hn::AllFalse(d, found))
      return i + static_cast<size_t>(hn::FindFirstTrue(d, found));
  return i;
}

size_t find_equal(const void* in, base::DType type, size_t begin, size_t count, int64_t value) {
  size_t found = count;
  with_type(type, [&]<class T>(T) HWY_ATTR {
    if (value < int64_t{std::numeric_limits<T>::min()} || value > int64_t{std::numeric_limits<T>::max()})
      return;
    const auto key = hn::Set(hn::ScalableTag<T>(), static_cast<T>(value));
    const size_t at =
        find(static_cast<const T*>(in), begin, count, [&](auto v) HWY_ATTR { return hn::Eq(v, key); });
    found = scalar::find_equal(in, type, at, count, value);
  });
  return found;
}

size_t find_outside(const void* in, base::DType type, size_t count, int64_t highest) {
  size_t found = count;
  with_type(type, [&]<class T>(T) HWY_ATTR {
    const int64_t most = std::numeric_limits<T>::max();
    if (std::is_unsigned_v<T> && highest >= most) return;
    const hn::ScalableTag<T> d;
    const auto limit = hn::Set(d, static_cast<T>(std::min(highest, most)));
    const size_t at = find(static_cast<const T*>(in), 0, count, [&](auto v) HWY_ATTR {
      if constexpr (std::is_signed_v<T>)
        return hn::Or(hn::Gt(v, limit), hn::Lt(v, hn::Zero(d)));
      else
        return hn::Gt(v, limit);
    });
    const size_t size = sizeof(T);
    found = at + scalar::find_outside(static_cast<const uint8_t*>(in) + at * size, type, count - at, highest);
  });
  return found;
}

#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace millrace::collate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::collate {

HWY_EXPORT(widen);
HWY_EXPORT(find_equal);
HWY_EXPORT(find_outside);

void widen(const void* in, base::DType from, base::DType to, size_t count, void* out, bool past_caches) {
  HWY_DYNAMIC_DISPATCH(widen)(in, from, to, count, out, past_caches);
}
size_t find_equal(const void* in, base::DType type, size_t begin, size_t count, int64_t value) {
  return HWY_DYNAMIC_DISPATCH(find_equal)(in, type, begin, count, value);
}
size_t find_outside(const void* in, base::DType type, size_t count, int64_t highest) {
  return HWY_DYNAMIC_DISPATCH(find_outside)(in, type, count, highest);
}

}  // namespace millrace::collate
#endif  // HWY_ONCE
