// The vector kernels of colours. This file is compiled once per instruction set (Highway's foreach_target)
// and the best one is chosen at run time. A vector holds neighbouring pixels, one 32-bit lane each.
#include "transforms/color_kernels.h"

#include <cstring>

#include "base/geometry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/color_kernels.cpp"
#include "base/simd_targets.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::transforms {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

using scalar::blend_with_grey;
using scalar::blend_with_level;
using scalar::shift_hue;
using scalar::sum_of_grey;

#else

namespace hn = hwy::HWY_NAMESPACE;

// As many pixels as there are f64 lanes for hues, as f32 lanes for the rest.
const hn::ScalableTag<uint32_t> du32;
const hn::ScalableTag<double> df64;
const hn::Rebind<uint32_t, decltype(df64)> du32_few;

template <class DU>
struct Lanes {
  using Unsigned = DU;
  using Signed = hn::RebindToSigned<DU>;
  using Float = hn::RebindToFloat<DU>;
  using VU = hn::Vec<Unsigned>;
  using VI = hn::Vec<Signed>;
  using VF = hn::Vec<Float>;

  struct Colors {
    VF r, g, b;
  };

  template <int kChannel>
  static HWY_INLINE VU channel(VU pixels) {
    return hn::And(hn::ShiftRight<8 * kChannel>(pixels), hn::Set(Unsigned(), 0xFF));
  }
  static HWY_INLINE VF number(VU bytes) { return hn::ConvertTo(Float(), hn::BitCast(Signed(), bytes)); }
  static HWY_INLINE Colors split(VU pixels) {
    return {number(channel<0>(pixels)), number(channel<1>(pixels)), number(channel<2>(pixels))};
  }
  // The colours are whole numbers, or are to be rounded down.
  static HWY_INLINE VU join(Colors c) {
    const auto byte = [](VF v) HWY_ATTR { return hn::BitCast(Unsigned(), hn::ConvertTo(Signed(), v)); };
    return hn::Or(byte(c.r), hn::Or(hn::ShiftLeft<8>(byte(c.g)), hn::ShiftLeft<16>(byte(c.b))));
  }
  static HWY_INLINE VU grey(VU pixels) {
    const auto weighted = [](VU v, uint32_t weight)
                              HWY_ATTR { return hn::Mul(v, hn::Set(Unsigned(), weight)); };
    const VU sum = hn::Add(weighted(channel<0>(pixels), 19595),
                           hn::Add(weighted(channel<1>(pixels), 38470), weighted(channel<2>(pixels), 7471)));
    return hn::ShiftRight<16>(hn::Add(sum, hn::Set(Unsigned(), 0x8000)));
  }
};

// The last pixels of a row, too few for a vector, go through a buffer of one vector: the function touches
// neither `in` nor `out` outside of the row.
template <class DU, class Change>
HWY_INLINE void change_row(DU d, const uint8_t* in, int32_t width, uint8_t* out, const Change& change) {
  const auto lanes = static_cast<int32_t>(hn::Lanes(d));
  const hn::Repartition<uint8_t, DU> bytes;
  int32_t x = 0;
  for (; x + lanes <= width; x += lanes) {
    const int64_t at = int64_t{x} * base::kPixelBytes;
    hn::StoreU(hn::BitCast(bytes, change(hn::BitCast(d, hn::LoadU(bytes, in + at)))), bytes, out + at);
  }
  if (x == width) return;
  HWY_ALIGN uint8_t rest[HWY_MAX_BYTES] = {};
  const int64_t at = int64_t{x} * base::kPixelBytes, count = int64_t{width} * base::kPixelBytes - at;
  std::memcpy(rest, in + at, count);
  hn::Store(hn::BitCast(bytes, change(hn::BitCast(d, hn::Load(bytes, rest)))), bytes, rest);
  std::memcpy(out + at, rest, count);
}

template <class L>
HWY_INLINE typename L::VF blended(typename L::VF base, typename L::VF value, typename L::VF factor) {
  const typename L::Float df;
  const auto mixed = hn::Add(base, hn::Mul(factor, hn::Sub(value, base)));
  return hn::Min(hn::Max(mixed, hn::Zero(df)), hn::Set(df, 255));
}

void blend_with_level(const uint8_t* in, int32_t width, uint8_t level, float factor, uint8_t* out) {
  using L = Lanes<decltype(du32)>;
  const auto base = hn::Set(L::Float(), level), weight = hn::Set(L::Float(), factor);
  change_row(du32, in, width, out, [&](L::VU pixels) HWY_ATTR {
    const L::Colors c = L::split(pixels);
    return L::join(
        {blended<L>(base, c.r, weight), blended<L>(base, c.g, weight), blended<L>(base, c.b, weight)});
  });
}

void blend_with_grey(const uint8_t* in, int32_t width, float factor, uint8_t* out) {
  using L = Lanes<decltype(du32)>;
  const auto weight = hn::Set(L::Float(), factor);
  change_row(du32, in, width, out, [&](L::VU pixels) HWY_ATTR {
    const L::Colors c = L::split(pixels);
    const L::VF grey = L::number(L::grey(pixels));
    return L::join(
        {blended<L>(grey, c.r, weight), blended<L>(grey, c.g, weight), blended<L>(grey, c.b, weight)});
  });
}

uint64_t sum_of_grey(const uint8_t* row, int32_t width) {
  using L = Lanes<decltype(du32)>;
  const auto lanes = static_cast<int32_t>(hn::Lanes(du32));
  const hn::Repartition<uint8_t, decltype(du32)> bytes;
  const hn::Repartition<uint64_t, decltype(du32)> du64;
  auto sums = hn::Zero(du64);
  int32_t x = 0;
  for (; x + lanes <= width; x += lanes) {
    const L::VU grey = L::grey(hn::BitCast(du32, hn::LoadU(bytes, row + int64_t{x} * base::kPixelBytes)));
    sums = hn::Add(sums, hn::SumsOf8(hn::BitCast(bytes, grey)));
  }
  return hn::GetLane(hn::SumOfLanes(du64, sums)) +
         scalar::sum_of_grey(row + int64_t{x} * base::kPixelBytes, width - x);
}

// ---- hue: f32 where Pillow keeps f32, f64 where it computes in f64. Its divisions by constants are products
// here; kernels_test and the parity tests find no colour for which that makes a difference.

using Few = Lanes<decltype(du32_few)>;
using VF = Few::VF;
using VF64 = hn::Vec<decltype(df64)>;
const Few::Float df;

HWY_INLINE VF64 wide(VF v) { return hn::PromoteTo(df64, v); }
HWY_INLINE VF narrow(VF64 v) { return hn::DemoteTo(df, v); }
HWY_INLINE VF whole(VF64 v) {
  return hn::ConvertTo(df, hn::DemoteTo(Few::Signed(), v));
}  // rounded towards 0

struct Hsv {
  VF h, s, v;
};

HWY_INLINE Hsv to_hsv(Few::Colors c) {
  const VF high = hn::Max(c.r, hn::Max(c.g, c.b)), low = hn::Min(c.r, hn::Min(c.g, c.b));
  const VF range = hn::Sub(high, low);
  const auto is_grey = hn::Eq(range, hn::Zero(df));
  const VF divisor = hn::IfThenElse(is_grey, hn::Set(df, 1), range);
  const auto below = [&](VF v) HWY_ATTR { return hn::Div(hn::Sub(high, v), divisor); };
  const VF r = below(c.r), g = below(c.g), b = below(c.b);
  const auto sector = [&](double offset, VF plus, VF minus) HWY_ATTR {
    return narrow(hn::Sub(hn::Add(hn::Set(df64, offset), wide(plus)), wide(minus)));
  };
  const VF sixths = hn::IfThenElse(hn::Eq(c.r, high), hn::Sub(b, g),
                                   hn::IfThenElse(hn::Eq(c.g, high), sector(2, r, b), sector(4, g, r)));
  const VF64 turns = hn::MulAdd(wide(sixths), hn::Set(df64, 1.0 / 6), hn::Set(df64, 1));
  const VF h = narrow(hn::Sub(turns, hn::Floor(turns)));
  const VF s = hn::Div(range, hn::Max(high, hn::Set(df, 1)));
  const auto byte = [](VF v) HWY_ATTR { return whole(hn::Mul(wide(v), hn::Set(df64, 255))); };
  return {hn::IfThenZeroElse(is_grey, byte(h)), byte(s), high};
}

HWY_INLINE Few::Colors from_hsv(Hsv c) {
  const VF64 sixths = hn::Mul(hn::Mul(wide(c.h), hn::Set(df64, 6)), hn::Set(df64, 1.0 / 255));
  const VF64 floor = hn::Floor(hn::Add(sixths, hn::Set(df64, 1e-9)));
  const VF sector = narrow(floor), f = narrow(hn::Sub(sixths, floor));
  const VF s = hn::Div(c.s, hn::Set(df, 255));
  const VF64 one = hn::Set(df64, 1), v = wide(c.v);
  const auto scaled = [&](VF64 less) HWY_ATTR {
    return whole(hn::Add(hn::Mul(v, hn::Sub(one, less)), hn::Set(df64, 0.5)));
  };
  const VF p = scaled(wide(s)), q = scaled(wide(hn::Mul(s, f))),
           t = scaled(hn::Mul(wide(s), hn::Sub(one, wide(f))));
  const auto in = [&](float n) HWY_ATTR { return hn::Eq(sector, hn::Set(df, n)); };
  const auto in1 = in(1), in2 = in(2), in3 = in(3), in4 = in(4), in5 = in(5);
  // Sector 0 (and 6, where the circle closes) is v, t, p.
  const auto pick = [](auto mask, VF yes, VF no) HWY_ATTR { return hn::IfThenElse(mask, yes, no); };
  return {pick(in1, q, pick(hn::Or(in2, in3), p, pick(in4, t, c.v))),
          pick(hn::Or(in1, in2), c.v, pick(in3, q, pick(hn::Or(in4, in5), p, t))),
          pick(in2, t, pick(hn::Or(in3, in4), c.v, pick(in5, q, p)))};
}

void shift_hue(const uint8_t* in, int32_t width, uint8_t shift, uint8_t* out) {
  const VF turn = hn::Set(df, shift), circle = hn::Set(df, 256);
  change_row(du32_few, in, width, out, [&](Few::VU pixels) HWY_ATTR {
    Hsv c = to_hsv(Few::split(pixels));
    c.h = hn::Add(c.h, turn);
    c.h = hn::Sub(c.h, hn::IfThenElseZero(hn::Ge(c.h, circle), circle));
    return Few::join(from_hsv(c));
  });
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace millrace::transforms
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::transforms {

HWY_EXPORT(blend_with_level);
HWY_EXPORT(blend_with_grey);
HWY_EXPORT(shift_hue);
HWY_EXPORT(sum_of_grey);

void blend_with_level(const uint8_t* in, int32_t width, uint8_t level, float factor, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(blend_with_level)(in, width, level, factor, out);
}
void blend_with_grey(const uint8_t* in, int32_t width, float factor, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(blend_with_grey)(in, width, factor, out);
}
void shift_hue(const uint8_t* in, int32_t width, uint8_t shift, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(shift_hue)(in, width, shift, out);
}
uint64_t sum_of_grey(const uint8_t* row, int32_t width) {
  return HWY_DYNAMIC_DISPATCH(sum_of_grey)(row, width);
}

}  // namespace millrace::transforms
#endif  // HWY_ONCE
