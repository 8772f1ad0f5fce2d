// The vector kernel of the weights. This file is compiled once per instruction set (Highway's foreach_target)
// and the best one is chosen at run time. Every lane is an output, so that sums run in Pillow's order and
// round as they do there.
#include "transforms/kernels.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/taps_kernel.cpp"
#include "base/simd_targets.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::transforms {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

const hn::ScalableTag<double> dd;
const hn::Rebind<int32_t, decltype(dd)> dn;  // as many 32-bit lanes
using VD = hn::VFromD<decltype(dd)>;
using VN = hn::VFromD<decltype(dn)>;

// Both filters have no branches, because the branch predictor cannot guess whether a tap lies in the support.
HWY_INLINE VD triangle(VD x) { return hn::Max(hn::Zero(dd), hn::Sub(hn::Set(dd, 1), x)); }

// ((1.5 x - 2.5) x) x + 1 and (((x - 5) x + 8) x - 4) (-0.5): rounded step by step, as Pillow's are.
HWY_INLINE VD cubic(VD x) {
  const auto k = [](double v) HWY_ATTR { return hn::Set(dd, v); };
  const VD inner = hn::Add(hn::Mul(hn::Mul(hn::Sub(hn::Mul(k(1.5), x), k(2.5)), x), x), k(1));
  const VD outer = hn::Mul(hn::Sub(hn::Mul(hn::Add(hn::Mul(hn::Sub(x, k(5)), x), k(8)), x), k(4)), k(-0.5));
  return hn::IfThenElse(hn::Lt(x, k(1)), inner, hn::IfThenElseZero(hn::Lt(x, k(2)), outer));
}

HWY_INLINE VN fixed_point(VD weight, int fraction_bits) {
  const VD half = hn::CopySignToAbs(hn::Set(dd, 0.5), weight);
  const VN rounded = hn::DemoteTo(dn, hn::Add(hn::Mul(weight, hn::Set(dd, 1 << fraction_bits)), half));
  return hn::ShiftLeftSame(rounded, kWeightBits - fraction_bits);
}

// Two 16-bit numbers to one 32-bit lane, as they lie in TapPair.
HWY_INLINE VN pair_of(VN first, VN second) {
  return hn::Or(hn::And(first, hn::Set(dn, 0xFFFF)), hn::ShiftLeft<16>(second));
}

template <bool kCubic>
void weigh(Taps& taps) {
  TapPlaces& places = taps.places;
  const int32_t lanes = static_cast<int32_t>(hn::Lanes(dd)), width = 2 * taps.pairs;
  places.unscaled.resize(static_cast<size_t>(width) * lanes);
  double* const unscaled = places.unscaled.data();
  const VD zero = hn::Zero(dd), one = hn::Set(dd, 1), inverse_stretch = hn::Set(dd, places.inverse_stretch);
  for (int32_t o = 0; o < taps.count; o += lanes) {
    const VD center = hn::LoadU(dd, &places.center[o]), first = hn::LoadU(dd, &places.first[o]);
    const VD count = hn::LoadU(dd, &places.count[o]), shift = hn::LoadU(dd, &places.shift[o]);
    // Pillow adds the weights up in the order of the inputs, so a mirrored list is gone through from its end.
    VD sum = zero;
    for (int32_t k = 0; k < width; ++k) {
      const int32_t at = places.mirrored ? width - 1 - k : k;
      VD tap = hn::Sub(hn::Set(dd, at), shift);
      if (places.mirrored) tap = hn::Sub(hn::Sub(count, one), tap);
      const VD x =
          hn::Abs(hn::Mul(hn::Add(hn::Sub(hn::Add(tap, first), center), hn::Set(dd, 0.5)), inverse_stretch));
      const auto inside = hn::And(hn::Ge(tap, zero), hn::Lt(tap, count));
      const VD weight = hn::IfThenElseZero(inside, kCubic ? cubic(x) : triangle(x));
      hn::StoreU(weight, dd, unscaled + static_cast<size_t>(at) * lanes);
      sum = hn::Add(sum, weight);
    }
    sum = hn::IfThenElse(hn::Eq(sum, zero), one, sum);
    const int32_t n = std::min(lanes, taps.count - o);
    for (int32_t p = 0; p < taps.pairs; ++p) {
      const double* const two = unscaled + static_cast<size_t>(2 * p) * lanes;
      const VN a = fixed_point(hn::Div(hn::LoadU(dd, two), sum), places.fraction_bits);
      const VN b = fixed_point(hn::Div(hn::LoadU(dd, two + lanes), sum), places.fraction_bits);
      const VN low = hn::Set(dn, (1 << kLowBits) - 1);
      HWY_ALIGN int32_t high_pairs[hn::MaxLanes(dn)], low_pairs[hn::MaxLanes(dn)];
      hn::Store(pair_of(hn::ShiftRight<kLowBits>(a), hn::ShiftRight<kLowBits>(b)), dn, high_pairs);
      hn::Store(pair_of(hn::And(a, low), hn::And(b, low)), dn, low_pairs);
      for (int32_t i = 0; i < n; ++i) {
        TapPair& pair = taps.weights[static_cast<size_t>(o + i) * taps.pairs + p];
        std::memcpy(pair.high, &high_pairs[i], sizeof(pair.high));
        std::memcpy(pair.low, &low_pairs[i], sizeof(pair.low));
      }
    }
  }
}

// The rarer filters run in `scalar`: the last bits of their sines are the C library's.
void weigh_taps(Taps& taps) {
  switch (taps.places.filter) {
    case Interpolation::bilinear: return weigh<false>(taps);
    case Interpolation::bicubic: return weigh<true>(taps);
    default: return scalar::weigh_taps(taps);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace millrace::transforms
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::transforms {

static_assert(HWY_MAX_BYTES / sizeof(double) <= TapPlaces::kPadding);

HWY_EXPORT(weigh_taps);

void weigh_taps(Taps& taps) { HWY_DYNAMIC_DISPATCH(weigh_taps)(taps); }

}  // namespace millrace::transforms
#endif  // HWY_ONCE
