#include "codecs/upsample_color.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/upsample_color.cpp"
#include "base/simd_targets.h"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace millrace::codecs::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D8 = hn::ScalableTag<uint8_t>;
using D16 = hn::Repartition<int16_t, D8>;
using DU16 = hn::Repartition<uint16_t, D8>;
using D32 = hn::Repartition<int32_t, D8>;
using V8 = hn::Vec<D8>;
using V16 = hn::Vec<D16>;
using VU16 = hn::Vec<DU16>;
using V32 = hn::Vec<D32>;

constexpr size_t kMostPixels = HWY_MAX_BYTES;  // pixels that one step can make

struct Rgb {
  V16 r, g, b;
};

HWY_INLINE V32 multiply_add(V16 ab, V16 factors) {
  const D32 d;
  V32 odd = hn::Zero(d);
  const V32 sum = hn::ReorderWidenMulAccumulate(d, ab, factors, hn::Zero(d), odd);
  return hn::RearrangeToOddPlusEven(sum, odd);
}

HWY_INLINE V16 clamp(V16 v) {
  const D16 d;
  return hn::Min(hn::Max(v, hn::Zero(d)), hn::Set(d, 255));
}

// BT.601 with libjpeg's 16-bit constants. Red and blue: 22971 / 2^14 and 29033 / 2^14, rounded, give
// libjpeg's table for each of the 256 values (a test checks all). Green rounds the sum of two products, so it
// needs 32 bits: -0.34414 cb + 0.28586 cr - cr.
HWY_INLINE Rgb to_rgb(V16 y, V16 cb, V16 cr) {
  const D16 d;
  const D32 d32;
  const V16 centre = hn::Set(d, 128);
  cb = hn::Sub(cb, centre);
  cr = hn::Sub(cr, centre);
  const V16 r = hn::Add(y, hn::MulFixedPoint15(hn::Add(cr, cr), hn::Set(d, 22971)));
  const V16 b = hn::Add(y, hn::MulFixedPoint15(hn::Add(cb, cb), hn::Set(d, 29033)));
  constexpr int32_t kGreen = int32_t{18734} << 16 | (-22554 & 0xFFFF);
  const V16 factors = hn::BitCast(d, hn::Set(d32, kGreen));
  const V32 half = hn::Set(d32, 1 << 15);
  const V32 lo = hn::ShiftRight<16>(hn::Add(multiply_add(hn::InterleaveLower(d, cb, cr), factors), half));
  const V32 hi = hn::ShiftRight<16>(hn::Add(multiply_add(hn::InterleaveUpper(d, cb, cr), factors), half));
  const V16 g = hn::Add(hn::Sub(y, cr), hn::ReorderDemote2To(d, lo, hi));
  return {clamp(r), clamp(g), clamp(b)};
}

// Even pixels in the low bytes, odd ones in the high bytes.
HWY_INLINE V8 merge(V16 even, V16 odd) { return hn::BitCast(D8(), hn::Or(even, hn::ShiftLeft<8>(odd))); }

HWY_INLINE V16 even_bytes(V8 v) { return hn::And(hn::BitCast(D16(), v), hn::Set(D16(), 0x00FF)); }
HWY_INLINE V16 odd_bytes(V8 v) { return hn::BitCast(D16(), hn::ShiftRight<8>(hn::BitCast(DU16(), v))); }

HWY_INLINE void store(V8 r, V8 g, V8 b, uint8_t* out) {
  hn::StoreInterleaved4(r, g, b, hn::Set(D8(), 255), D8(), out);
}

// Calls step(pixel, to) for whole vectors of pixels, where `to` takes all of a vector's pixels. The ends of
// the row, where less than a vector is wanted, go through a buffer.
template <class Step>
HWY_INLINE void for_each_vector(size_t first, size_t count, uint8_t* out, Step step) {
  const size_t pixels = hn::Lanes(D8());
  HWY_ALIGN uint8_t buffer[4 * kMostPixels];
  for (size_t p = 0; p < first + count; p += pixels) {
    const size_t from = std::max(p, first), to = std::min(p + pixels, first + count);
    if (to - from == pixels) {
      step(p, out + 4 * (p - first));
    } else {
      step(p, buffer);
      std::memcpy(out + 4 * (from - first), buffer + 4 * (from - p), 4 * (to - from));
    }
  }
}

void blend(const uint8_t* HWY_RESTRICT near, const uint8_t* HWY_RESTRICT far, size_t count,
           uint16_t* HWY_RESTRICT sums) {
  const DU16 d;
  const hn::Rebind<uint8_t, DU16> bytes;
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    const VU16 n = hn::PromoteTo(d, hn::LoadU(bytes, near + i)),
               f = hn::PromoteTo(d, hn::LoadU(bytes, far + i));
    hn::StoreU(hn::Add(hn::Add(n, n), hn::Add(n, f)), d, sums + i);
  }
}

// Samples for the even and the odd pixels under N sums.
struct Pair {
  V16 even, odd;
};
HWY_INLINE Pair upsample(const uint16_t* sums, VU16 round_even, VU16 round_odd) {
  const DU16 d;
  const VU16 own = hn::LoadU(d, sums), left = hn::LoadU(d, sums - 1), right = hn::LoadU(d, sums + 1);
  const VU16 three = hn::Add(hn::Add(own, own), own);
  return {hn::BitCast(D16(), hn::ShiftRight<4>(hn::Add(three, hn::Add(left, round_even)))),
          hn::BitCast(D16(), hn::ShiftRight<4>(hn::Add(three, hn::Add(right, round_odd))))};
}

void halved(const uint8_t* HWY_RESTRICT luma, const uint16_t* HWY_RESTRICT cb_sums,
            const uint16_t* HWY_RESTRICT cr_sums, int round_even, int round_odd, size_t first, size_t count,
            uint8_t* HWY_RESTRICT out) {
  const VU16 even_term = hn::Set(DU16(), static_cast<uint16_t>(round_even)),
             odd_term = hn::Set(DU16(), static_cast<uint16_t>(round_odd));
  for_each_vector(first, count, out, [&](size_t p, uint8_t* to) HWY_ATTR {
    const V8 y = hn::LoadU(D8(), luma + p);
    const Pair cb = upsample(cb_sums + p / 2, even_term, odd_term),
               cr = upsample(cr_sums + p / 2, even_term, odd_term);
    const Rgb even = to_rgb(even_bytes(y), cb.even, cr.even), odd = to_rgb(odd_bytes(y), cb.odd, cr.odd);
    store(merge(even.r, odd.r), merge(even.g, odd.g), merge(even.b, odd.b), to);
  });
}

void full(const uint8_t* HWY_RESTRICT luma, const uint8_t* HWY_RESTRICT cb, const uint8_t* HWY_RESTRICT cr,
          size_t count, uint8_t* HWY_RESTRICT out) {
  for_each_vector(0, count, out, [&](size_t p, uint8_t* to) HWY_ATTR {
    const V8 y = hn::LoadU(D8(), luma + p), u = hn::LoadU(D8(), cb + p), v = hn::LoadU(D8(), cr + p);
    const Rgb even = to_rgb(even_bytes(y), even_bytes(u), even_bytes(v)),
              odd = to_rgb(odd_bytes(y), odd_bytes(u), odd_bytes(v));
    store(merge(even.r, odd.r), merge(even.g, odd.g), merge(even.b, odd.b), to);
  });
}

void grey(const uint8_t* HWY_RESTRICT luma, size_t count, uint8_t* HWY_RESTRICT out) {
  for_each_vector(0, count, out, [&](size_t p, uint8_t* to) HWY_ATTR {
    const V8 y = hn::LoadU(D8(), luma + p);
    store(y, y, y, to);
  });
}

UpsampleColor choose_kernels() { return {blend, halved, full, grey}; }

}  // namespace
}  // namespace millrace::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::codecs {
HWY_EXPORT(choose_kernels);
UpsampleColor upsample_color() { return HWY_DYNAMIC_DISPATCH(choose_kernels)(); }
}  // namespace millrace::codecs
#endif
