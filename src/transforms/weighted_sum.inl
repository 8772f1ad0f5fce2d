// Shared parts of the vector kernels: tags, and the exact sum of weighted bytes. Compiled once per
// instruction set, like the kernels.
//
// Vectors are rows of 128-bit blocks. x86, NEON and WASM have such blocks; the scalable sets do not (the
// kernel files switch them off where they include foreach_target.h).
#include <cstring>

#include "hwy/highway.h"
#include "transforms/resample_taps.h"

// Included once more for each target, so the usual guard would not do.
#if defined(MILLRACE_TRANSFORMS_WEIGHTED_SUM_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef MILLRACE_TRANSFORMS_WEIGHTED_SUM_INL_
#undef MILLRACE_TRANSFORMS_WEIGHTED_SUM_INL_
#else
#define MILLRACE_TRANSFORMS_WEIGHTED_SUM_INL_
#endif

HWY_BEFORE_NAMESPACE();
namespace millrace::transforms {
namespace HWY_NAMESPACE {
namespace {
#if HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;

const hn::ScalableTag<int32_t> d32;
const hn::Repartition<int16_t, decltype(d32)> d16;
const hn::Repartition<uint16_t, decltype(d32)> du16;
const hn::Repartition<uint8_t, decltype(d32)> d8;
const hn::RebindToUnsigned<decltype(d32)> du32;
const hn::RebindToFloat<decltype(d32)> df;
using V32 = hn::VFromD<decltype(d32)>;
using V16 = hn::VFromD<decltype(d16)>;
using V8 = hn::VFromD<decltype(d8)>;
using VU32 = hn::VFromD<decltype(du32)>;
using VF = hn::VFromD<decltype(df)>;

constexpr int kBlocks = HWY_MAX_BYTES / 16;  // of 128 bits in a vector
constexpr int32_t kLanes = 4 * kBlocks;      // pixels in a vector

// One weight pair in every pair of 16-bit lanes.
HWY_INLINE V16 broadcast(const int16_t* pair) {
  int32_t both;
  std::memcpy(&both, pair, sizeof(both));
  return hn::BitCast(d16, hn::Set(d32, both));
}

// Sum of products of neighbouring 16-bit lanes, added to `sum`.
HWY_INLINE V32 multiply_add(V32 sum, V16 a, V16 b) {
  V32 odd = hn::Zero(d32);
#if HWY_ARCH_ARM  // where the products of a vector's halves come apart, which `sum` is not
  const V32 even = hn::ReorderWidenMulAccumulate(d32, a, b, hn::Zero(d32), odd);
  return hn::Add(sum, hn::RearrangeToOddPlusEven(even, odd));
#else
  const V32 even = hn::ReorderWidenMulAccumulate(d32, a, b, sum, odd);
  return hn::RearrangeToOddPlusEven(even, odd);
#endif
}

// total = (high << 11) + low, so total >> 22 = (high + (low >> 11)) >> 11: exact, as long as `low` itself
// fits.
constexpr int kMostPairs = 2000;  // 4000 * 255 * 2047 + 2^21 < 2^31
struct Sum {
  V32 low, high;
  HWY_INLINE Sum() : low(hn::Set(d32, 1 << (kWeightBits - 1))), high(hn::Zero(d32)) {}
  HWY_INLINE void add(V16 values, V16 weights_high, V16 weights_low) {
    low = multiply_add(low, values, weights_low);
    high = multiply_add(high, values, weights_high);
  }
  HWY_INLINE V32 rounded() const {  // not clamped
    return hn::ShiftRight<kWeightBits - kLowBits>(hn::Add(high, hn::ShiftRight<kLowBits>(low)));
  }
};

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace millrace::transforms
HWY_AFTER_NAMESPACE();

#endif  // MILLRACE_TRANSFORMS_WEIGHTED_SUM_INL_
