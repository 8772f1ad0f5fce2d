#include "codecs/idct.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/idct.cpp"
#include "base/simd_targets.h"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace millrace::codecs::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kRow = 32;  // values in one row of the four blocks

using D16 = hn::CappedTag<int16_t, kRow>;
using D32 = hn::Repartition<int32_t, D16>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;

constexpr int kConstBits = 13, kPass1Bits = 2;
constexpr int fix(double x) { return static_cast<int>(x * (1 << kConstBits) + 0.5); }
constexpr int kF0298 = fix(0.298631336), kF0390 = fix(0.390180644), kF0541 = fix(0.541196100),
              kF0765 = fix(0.765366865), kF0899 = fix(0.899976223), kF1175 = fix(1.175875602),
              kF1501 = fix(1.501321110), kF1847 = fix(1.847759065), kF1961 = fix(1.961570560),
              kF2053 = fix(2.053119869), kF2562 = fix(2.562915447), kF3072 = fix(3.072711026);

// 32-bit sums for the lower and the upper four columns of each block.
struct Wide {
  V32 lo, hi;
};
HWY_INLINE Wide operator+(Wide a, Wide b) { return {hn::Add(a.lo, b.lo), hn::Add(a.hi, b.hi)}; }
HWY_INLINE Wide operator-(Wide a, Wide b) { return {hn::Sub(a.lo, b.lo), hn::Sub(a.hi, b.hi)}; }

// The lanes of two vectors side by side, ready for multiply-and-add.
struct Paired {
  V16 lo, hi;
};
HWY_INLINE Paired pair(V16 a, V16 b) {
  const D16 d;
  return {hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)};
}

HWY_INLINE V32 multiply_add(V16 ab, V16 factors) {
  const D32 d;
  V32 odd = hn::Zero(d);
  const V32 sum = hn::ReorderWidenMulAccumulate(d, ab, factors, hn::Zero(d), odd);
  return hn::RearrangeToOddPlusEven(sum, odd);
}

// a * kA + b * kB
template <int kA, int kB>
HWY_INLINE Wide weigh(Paired ab) {
  constexpr auto kBoth =
      static_cast<int32_t>(static_cast<uint32_t>(kB) << 16 | (static_cast<uint32_t>(kA) & 0xFFFF));
  const V16 factors = hn::BitCast(D16(), hn::Set(D32(), kBoth));
  return {multiply_add(ab.lo, factors), multiply_add(ab.hi, factors)};
}

// v << kConstBits, as 32 bits
HWY_INLINE Wide scale_up(V16 v) {
  const Paired high = pair(hn::Zero(D16()), v);
  return {hn::ShiftRight<16 - kConstBits>(hn::BitCast(D32(), high.lo)),
          hn::ShiftRight<16 - kConstBits>(hn::BitCast(D32(), high.hi))};
}

// (w + kRound) >> kShift, saturated to 16 bits
template <int kShift>
HWY_INLINE V16 scale_down(Wide w) {
  return hn::ReorderDemote2To(D16(), hn::ShiftRight<kShift>(w.lo), hn::ShiftRight<kShift>(w.hi));
}

// One dimension of the transform over v[0..7]. Every 16-bit sum wraps and every narrowing saturates where
// libjpeg-turbo's do.
template <int kRoundBits, int kShift>
HWY_INLINE void transform(V16 (&v)[8]) {
  const Paired even26 = pair(v[2], v[6]);
  const Wide e2 = weigh<kF0541, kF0541 - kF1847>(even26), e3 = weigh<kF0541 + kF0765, kF0541>(even26);
  const V32 round = hn::Set(D32(), 1 << (kRoundBits - 1));
  const Wide rounding = {round, round};
  const Wide e0 = scale_up(hn::Add(v[0], v[4])) + rounding, e1 = scale_up(hn::Sub(v[0], v[4])) + rounding;
  const Wide t0 = e0 + e3, t3 = e0 - e3, t1 = e1 + e2, t2 = e1 - e2;

  const Paired sums = pair(hn::Add(v[7], v[3]), hn::Add(v[5], v[1]));
  const Wide z3 = weigh<kF1175 - kF1961, kF1175>(sums), z4 = weigh<kF1175, kF1175 - kF0390>(sums);
  const Paired odd71 = pair(v[7], v[1]), odd53 = pair(v[5], v[3]);
  const Wide o0 = weigh<kF0298 - kF0899, -kF0899>(odd71) + z3,
             o3 = weigh<-kF0899, kF1501 - kF0899>(odd71) + z4;
  const Wide o1 = weigh<kF2053 - kF2562, -kF2562>(odd53) + z4,
             o2 = weigh<-kF2562, kF3072 - kF2562>(odd53) + z3;

  v[0] = scale_down<kShift>(t0 + o3);
  v[7] = scale_down<kShift>(t0 - o3);
  v[1] = scale_down<kShift>(t1 + o2);
  v[6] = scale_down<kShift>(t1 - o2);
  v[2] = scale_down<kShift>(t2 + o1);
  v[5] = scale_down<kShift>(t2 - o1);
  v[3] = scale_down<kShift>(t3 + o0);
  v[4] = scale_down<kShift>(t3 - o0);
}

template <class T>
HWY_INLINE void zip(V16 a, V16 b, V16& lower, V16& upper) {
  const D16 d;
  const hn::Repartition<T, D16> as;
  const auto x = hn::BitCast(as, a), y = hn::BitCast(as, b);
  lower = hn::BitCast(d, hn::InterleaveLower(as, x, y));
  upper = hn::BitCast(d, hn::InterleaveUpper(as, x, y));
}

// Rows to columns inside each block.
HWY_INLINE void transpose(V16 (&v)[8]) {
  V16 a[8], b[8];
  for (int i = 0; i < 4; ++i) zip<uint16_t>(v[i], v[i + 4], a[2 * i], a[2 * i + 1]);
  for (int i = 0; i < 4; ++i) zip<uint16_t>(a[i], a[i + 4], b[2 * i], b[2 * i + 1]);
  for (int i = 0; i < 4; ++i) zip<uint16_t>(b[i], b[i + 4], v[2 * i], v[2 * i + 1]);
}

// v[c] holds column c of each block, the sample in the high byte: writes the rows.
HWY_INLINE void store_rows(const V16 (&v)[8], uint8_t* out, ptrdiff_t stride) {
  const D16 d;
  const V16 high_byte = hn::Set(d, static_cast<int16_t>(0xFF00)),
            centre = hn::Set(d, static_cast<int16_t>(0x8080));
  V16 two[4];  // two columns in each lane
  for (int i = 0; i < 4; ++i) {
    const V16 first = hn::BitCast(d, hn::ShiftRight<8>(hn::BitCast(hn::RebindToUnsigned<D16>(), v[2 * i])));
    two[i] = hn::Xor(hn::Or(first, hn::And(v[2 * i + 1], high_byte)), centre);
  }
  V16 left[2], right[2], rows[4];  // rows[i]: rows 2i and 2i + 1 of each block
  zip<uint16_t>(two[0], two[1], left[0], left[1]);
  zip<uint16_t>(two[2], two[3], right[0], right[1]);
  zip<uint32_t>(left[0], right[0], rows[0], rows[1]);
  zip<uint32_t>(left[1], right[1], rows[2], rows[3]);

  const hn::Repartition<uint64_t, D16> d64;
  const hn::Half<decltype(d64)> half;
  for (int i = 0; i < 4; ++i) {
    const auto pairs = hn::BitCast(d64, rows[i]);
    const auto even = hn::LowerHalf(half, hn::ConcatEven(d64, pairs, pairs));
    const auto odd = hn::LowerHalf(half, hn::ConcatOdd(d64, pairs, pairs));
    hn::StoreU(hn::BitCast(hn::Repartition<uint8_t, decltype(half)>(), even),
               hn::Repartition<uint8_t, decltype(half)>(), out + 2 * i * stride);
    hn::StoreU(hn::BitCast(hn::Repartition<uint8_t, decltype(half)>(), odd),
               hn::Repartition<uint8_t, decltype(half)>(), out + (2 * i + 1) * stride);
  }
}

bool idct_four_blocks(const int16_t* HWY_RESTRICT coefficients, const int16_t* HWY_RESTRICT quant,
                      uint8_t* HWY_RESTRICT out, ptrdiff_t stride) {
  const D16 d;
  bool in_range = true;
  for (size_t column = 0; column < kRow; column += hn::Lanes(d)) {
    V16 v[8];
    for (size_t row = 0; row < 8; ++row)
      v[row] = hn::Mul(hn::Load(d, coefficients + row * kRow + column), hn::LoadDup128(d, quant + row * 8));
    in_range &= hn::AllTrue(d, hn::Eq(hn::ShiftRight<kPass1Bits>(hn::ShiftLeft<kPass1Bits>(v[0])), v[0]));
    transform<kConstBits - kPass1Bits, kConstBits - kPass1Bits>(v);
    transpose(v);
    // Shifting eight bits less makes the saturation to 16 bits the clamp to 8: the sample is the high byte.
    transform<kConstBits + kPass1Bits + 3, kConstBits + kPass1Bits + 3 - 8>(v);
    store_rows(v, out + column, stride);
  }
  return in_range;
}

IdctGroup choose_idct() { return idct_four_blocks; }

}  // namespace
}  // namespace millrace::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::codecs {
HWY_EXPORT(choose_idct);
IdctGroup idct_group() { return HWY_DYNAMIC_DISPATCH(choose_idct)(); }
}  // namespace millrace::codecs
#endif
