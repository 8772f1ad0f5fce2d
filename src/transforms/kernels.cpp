// The vector kernels. This file is compiled once per instruction set (Highway's foreach_target) and the best one is chosen at
// run time. Vectors are treated as rows of 128-bit blocks, which x86, NEON and WASM have and the scalable sets have not.
#include "transforms/kernels.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/geometry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/kernels.cpp"
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

using scalar::blend_rows;
using scalar::blend_to_planes;
using scalar::resample_rows;
void store_row_f32(const uint8_t* row, int32_t width, const ValueTable& table, void* const* planes) {
  scalar::store_row(row, width, table, planes);
}
void store_row_u8(const uint8_t* row, int32_t width, const ValueTable& table, void* const* planes) {
  scalar::store_row(row, width, table, planes);
}

#else

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
  const V32 even = hn::ReorderWidenMulAccumulate(d32, a, b, sum, odd);
  return hn::RearrangeToOddPlusEven(even, odd);
}

// total = (high << 11) + low; rounding it to 22 bits from `low >> 11` on is exact, because no step drops a carry.
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

// ---- resample_rows: block r of a vector belongs to row r, so that one weight serves all rows.

// kBytes (8 or 16) of each row in the lower part of its block.
template <int kBytes>
HWY_INLINE V8 load_blocks(const uint8_t* const* rows, int64_t offset) {
  const hn::FixedTag<uint8_t, 16> block;
  const auto load = [&](int r) HWY_ATTR {
    if constexpr (kBytes == 16) return hn::LoadU(block, rows[r] + offset);
    else return hn::ZeroExtendVector(block, hn::LoadU(hn::FixedTag<uint8_t, 8>(), rows[r] + offset));
  };
#if HWY_MAX_BYTES == 64
  const hn::FixedTag<uint8_t, 32> half;
  return hn::Combine(d8, hn::Combine(half, load(3), load(2)), hn::Combine(half, load(1), load(0)));
#elif HWY_MAX_BYTES == 32
  return hn::Combine(d8, load(1), load(0));
#else
  return load(0);
#endif
}

HWY_INLINE void store_blocks(V8 v, uint8_t* const* rows, int64_t offset) {
  const hn::FixedTag<uint8_t, 16> block;
#if HWY_MAX_BYTES == 64
  const hn::FixedTag<uint8_t, 32> half;
  const auto low = hn::LowerHalf(half, v), high = hn::UpperHalf(half, v);
  hn::StoreU(hn::LowerHalf(block, low), block, rows[0] + offset);
  hn::StoreU(hn::UpperHalf(block, low), block, rows[1] + offset);
  hn::StoreU(hn::LowerHalf(block, high), block, rows[2] + offset);
  hn::StoreU(hn::UpperHalf(block, high), block, rows[3] + offset);
#elif HWY_MAX_BYTES == 32
  hn::StoreU(hn::LowerHalf(block, v), block, rows[0] + offset);
  hn::StoreU(hn::UpperHalf(block, v), block, rows[1] + offset);
#else
  hn::StoreU(v, block, rows[0] + offset);
#endif
}

struct PairShuffles {
  // Pixels a b c d (RGBX each) to 16-bit lanes Ra Rb Ga Gb Ba Bb Xa Xb, and the same of c and d.
  V8 first, second;
  HWY_INLINE PairShuffles() {
    constexpr uint8_t z = 0x80;
    alignas(16) static constexpr uint8_t kFirst[16] = {0, z, 4, z, 1, z, 5, z, 2, z, 6, z, 3, z, 7, z};
    alignas(16) static constexpr uint8_t kSecond[16] = {8, z, 12, z, 9, z, 13, z, 10, z, 14, z, 11, z, 15, z};
    first = hn::LoadDup128(d8, kFirst);
    second = hn::LoadDup128(d8, kSecond);
  }
};

HWY_INLINE V16 pair_lanes(V8 pixels, V8 shuffle) { return hn::BitCast(d16, hn::TableLookupBytesOr0(pixels, shuffle)); }

// One output of all rows: block r holds R G B X of row r. kPairs == 0: any number.
template <int kPairs>
HWY_INLINE V32 resample_pixel(const uint8_t* const* rows, int32_t start, const TapPair* weights, int any_pairs, const PairShuffles& shuffles) {
  const int pairs = kPairs ? kPairs : any_pairs;
  Sum sum;
  int64_t offset = int64_t{start} * kPixelBytes;
  int p = 0;
  for (; p + 2 <= pairs; p += 2, offset += 4 * kPixelBytes) {
    const V8 pixels = load_blocks<16>(rows, offset);
    sum.add(pair_lanes(pixels, shuffles.first), broadcast(weights[p].high), broadcast(weights[p].low));
    sum.add(pair_lanes(pixels, shuffles.second), broadcast(weights[p + 1].high), broadcast(weights[p + 1].low));
  }
  if (p < pairs)
    sum.add(pair_lanes(load_blocks<8>(rows, offset), shuffles.first), broadcast(weights[p].high), broadcast(weights[p].low));
  return sum.rounded();
}

// Four pixels of 32-bit channels per block to four pixels of bytes per block, clamped.
HWY_INLINE V8 pack_pixels(V32 p0, V32 p1, V32 p2, V32 p3) {
  const auto clamp = [](V16 v) HWY_ATTR { return hn::Min(hn::Max(v, hn::Zero(d16)), hn::Set(d16, int16_t{255})); };
  const V16 p01 = clamp(hn::ReorderDemote2To(d16, p0, p1)), p23 = clamp(hn::ReorderDemote2To(d16, p2, p3));
  alignas(16) static constexpr uint8_t kOrder[16] = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};
  const V8 mixed = hn::BitCast(d8, hn::Or(p01, hn::ShiftLeft<8>(p23)));
  return hn::TableLookupBytes(mixed, hn::LoadDup128(d8, kOrder));
}

template <int kPairs>
void resample_blocks(const uint8_t* const* rows, const Taps& taps, uint8_t* const* outs) {
  const PairShuffles shuffles;
  const int pairs = kPairs ? kPairs : taps.pairs;
  const int32_t* start = taps.start.data();
  const TapPair* weights = taps.weights.data();
  for (int32_t o = 0; o < taps.count; o += kTapGroup, start += kTapGroup, weights += kTapGroup * pairs) {
    const V32 p0 = resample_pixel<kPairs>(rows, start[0], weights, pairs, shuffles);
    const V32 p1 = resample_pixel<kPairs>(rows, start[1], weights + pairs, pairs, shuffles);
    const V32 p2 = resample_pixel<kPairs>(rows, start[2], weights + 2 * pairs, pairs, shuffles);
    const V32 p3 = resample_pixel<kPairs>(rows, start[3], weights + 3 * pairs, pairs, shuffles);
    store_blocks(pack_pixels(p0, p1, p2, p3), outs, int64_t{o} * kPixelBytes);
  }
}

void resample_rows(const uint8_t* const* rows, int n_rows, const Taps& taps, uint8_t* const* outs) {
  if (2 * taps.pairs > taps.in_size) return scalar::resample_rows(rows, n_rows, taps, outs);
  for (int first = 0; first < n_rows; first += kBlocks) {
    // A vector always has kBlocks rows; missing ones repeat the last.
    const uint8_t* block_rows[kBlocks];
    uint8_t* block_outs[kBlocks];
    for (int r = 0; r < kBlocks; ++r) {
      block_rows[r] = rows[std::min(first + r, n_rows - 1)];
      block_outs[r] = outs[std::min(first + r, n_rows - 1)];
    }
    switch (taps.pairs) {
      case 1: resample_blocks<1>(block_rows, taps, block_outs); break;
      case 2: resample_blocks<2>(block_rows, taps, block_outs); break;
      case 3: resample_blocks<3>(block_rows, taps, block_outs); break;
      case 4: resample_blocks<4>(block_rows, taps, block_outs); break;
      default: resample_blocks<0>(block_rows, taps, block_outs);
    }
  }
}

// ---- blend_rows: a vector holds neighbouring pixels, one 32-bit lane each.

struct Channels { V32 r, g, b; };

struct BlendSums {
  Sum r, g, b;
  HWY_INLINE BlendSums() {}
  HWY_INLINE void add(const uint8_t* row0, const uint8_t* row1, V16 high, V16 low) {
    const VU32 first = hn::BitCast(du32, hn::LoadU(d8, row0)), second = hn::BitCast(du32, hn::LoadU(d8, row1));
    const auto red_green = hn::OddEven(hn::BitCast(du16, hn::ShiftLeft<16>(second)), hn::BitCast(du16, first));
    const auto blue = hn::OddEven(hn::BitCast(du16, second), hn::BitCast(du16, hn::ShiftRight<16>(first)));
    const V32 low_bytes = hn::Set(d32, 0x00FF00FF);
    r.add(hn::BitCast(d16, hn::And(hn::BitCast(d32, red_green), low_bytes)), high, low);
    g.add(hn::BitCast(d16, hn::ShiftRight<8>(red_green)), high, low);
    b.add(hn::BitCast(d16, hn::And(hn::BitCast(d32, blue), low_bytes)), high, low);
  }
  HWY_INLINE Channels rounded() const { return {r.rounded(), g.rounded(), b.rounded()}; }
};

HWY_INLINE Channels clamped(Channels c) {
  const auto clamp = [](V32 v) HWY_ATTR { return hn::Min(hn::Max(v, hn::Zero(d32)), hn::Set(d32, 255)); };
  return {clamp(c.r), clamp(c.g), clamp(c.b)};
}

// The rows under a blend with their weights. For a known number of pairs all of it stays in registers.
template <int kPairs>
class Blend {
 public:
  HWY_INLINE Blend(const uint8_t* const* rows, const TapPair* weights) {
    for (int p = 0; p < kPairs; ++p) {
      rows_[2 * p] = rows[2 * p];
      rows_[2 * p + 1] = rows[2 * p + 1];
      high_[p] = broadcast(weights[p].high);
      low_[p] = broadcast(weights[p].low);
    }
  }
  HWY_INLINE Channels at(int64_t offset) const {
    BlendSums sums;
    for (int p = 0; p < kPairs; ++p) sums.add(rows_[2 * p] + offset, rows_[2 * p + 1] + offset, high_[p], low_[p]);
    return sums.rounded();
  }

 private:
  const uint8_t* rows_[2 * kPairs];
  V16 high_[kPairs], low_[kPairs];
};

// Any number of pairs.
class AnyBlend {
 public:
  HWY_INLINE AnyBlend(const uint8_t* const* rows, const TapPair* weights, int pairs) : rows_(rows), weights_(weights), pairs_(pairs) {}
  HWY_INLINE Channels at(int64_t offset) const {
    BlendSums sums;
    for (int p = 0; p < pairs_; ++p)
      sums.add(rows_[2 * p] + offset, rows_[2 * p + 1] + offset, broadcast(weights_[p].high), broadcast(weights_[p].low));
    return sums.rounded();
  }

 private:
  const uint8_t* const* rows_;
  const TapPair* weights_;
  int pairs_;
};

template <class BlendOf>
HWY_INLINE void blend(const BlendOf& source, int32_t width, bool clamp, uint8_t* out) {
  for (int32_t x = 0; x < width; x += kLanes) {
    const int64_t at = int64_t{std::min(x, width - kLanes)} * kPixelBytes;  // the last vector overlaps the one before
    Channels c = source.at(at);
    if (clamp) c = clamped(c);
    const V32 pixels = hn::Or(c.r, hn::Or(hn::ShiftLeft<8>(c.g), hn::ShiftLeft<16>(c.b)));
    hn::StoreU(hn::BitCast(d8, pixels), d8, out + at);
  }
}

// Without negative weights no sum leaves 0..255.
bool any_negative(const TapPair* weights, int n_pairs) {
  bool negative = false;
  for (int p = 0; p < n_pairs; ++p) negative |= weights[p].high[0] < 0 || weights[p].high[1] < 0;
  return negative;
}

void blend_rows(const uint8_t* const* rows, const TapPair* weights, int n_pairs, int32_t width, uint8_t* out) {
  if (width < kLanes) return scalar::blend_rows(rows, weights, n_pairs, width, out);
  const bool clamp = any_negative(weights, n_pairs);
  switch (n_pairs) {
    case 1: return blend(Blend<1>(rows, weights), width, clamp, out);
    case 2: return blend(Blend<2>(rows, weights), width, clamp, out);
    case 3: return blend(Blend<3>(rows, weights), width, clamp, out);
    default: return blend(AnyBlend(rows, weights, n_pairs), width, clamp, out);
  }
}

// ---- store_row

template <int kChannel>
HWY_INLINE V32 channel_of(VU32 pixels) {
  return hn::BitCast(d32, hn::And(hn::ShiftRight<8 * kChannel>(pixels), hn::Set(du32, 0xFF)));
}

// ChannelMath with its constants in registers: the compiler could not keep them there, as any store may change the table.
class ChannelValues {
 public:
  HWY_INLINE explicit ChannelValues(const ChannelMath& m)
      : scale_high_(hn::Set(df, m.scale_high)), scale_low_(hn::Set(df, m.scale_low)), mean_(hn::Set(df, m.mean)),
        inverse_(hn::Set(df, m.inverse)), std_(hn::Set(df, m.std)) {}

  HWY_INLINE VF of(V32 bytes) const {
    const VF byte = hn::ConvertTo(df, bytes);
    const VF x = hn::MulAdd(byte, scale_high_, hn::Mul(byte, scale_low_));
    const VF d = hn::Sub(x, mean_);
    const VF q = hn::Mul(d, inverse_);
    return hn::MulAdd(hn::NegMulAdd(q, std_, d), inverse_, q);
  }

 private:
  VF scale_high_, scale_low_, mean_, inverse_, std_;
};

void store_row_f32(const uint8_t* row, int32_t width, const ValueTable& table, void* const* planes) {
  if (width < kLanes) return scalar::store_row(row, width, table, planes);
  const ChannelValues red(table.math[0]), green(table.math[1]), blue(table.math[2]);
  float *const r = static_cast<float*>(planes[0]), *const g = static_cast<float*>(planes[1]), *const b = static_cast<float*>(planes[2]);
  for (int32_t x = 0; x < width; x += kLanes) {
    const int32_t at = std::min(x, width - kLanes);
    const VU32 pixels = hn::BitCast(du32, hn::LoadU(d8, row + int64_t{at} * kPixelBytes));
    hn::StoreU(red.of(channel_of<0>(pixels)), df, r + at);
    hn::StoreU(green.of(channel_of<1>(pixels)), df, g + at);
    hn::StoreU(blue.of(channel_of<2>(pixels)), df, b + at);
  }
}

void store_row_u8(const uint8_t* row, int32_t width, const ValueTable& table, void* const* planes) {
  if (width < kLanes) return scalar::store_row(row, width, table, planes);
  const hn::FixedTag<uint8_t, kLanes> bytes;
  for (int32_t x = 0; x < width; x += kLanes) {
    const int32_t at = std::min(x, width - kLanes);
    const VU32 pixels = hn::BitCast(du32, hn::LoadU(d8, row + int64_t{at} * kPixelBytes));
    hn::StoreU(hn::DemoteTo(bytes, channel_of<0>(pixels)), bytes, static_cast<uint8_t*>(planes[0]) + at);
    hn::StoreU(hn::DemoteTo(bytes, channel_of<1>(pixels)), bytes, static_cast<uint8_t*>(planes[1]) + at);
    hn::StoreU(hn::DemoteTo(bytes, channel_of<2>(pixels)), bytes, static_cast<uint8_t*>(planes[2]) + at);
  }
}

// ---- blend_to_planes

template <class BlendOf>
HWY_INLINE void blend_values(const BlendOf& source, int32_t width, bool clamp, const ValueTable& table, void* const* planes) {
  const ChannelValues red(table.math[0]), green(table.math[1]), blue(table.math[2]);
  float *const r = static_cast<float*>(planes[0]), *const g = static_cast<float*>(planes[1]), *const b = static_cast<float*>(planes[2]);
  for (int32_t x = 0; x < width; x += kLanes) {
    const int32_t at = std::min(x, width - kLanes);
    Channels c = source.at(int64_t{at} * kPixelBytes);
    if (clamp) c = clamped(c);
    hn::StoreU(red.of(c.r), df, r + at);
    hn::StoreU(green.of(c.g), df, g + at);
    hn::StoreU(blue.of(c.b), df, b + at);
  }
}

void blend_to_planes(const uint8_t* const* rows, const TapPair* weights, int n_pairs, int32_t width, const ValueTable& table,
                     void* const* planes) {
  if (width < kLanes) return scalar::blend_to_planes(rows, weights, n_pairs, width, table, planes);
  const bool clamp = any_negative(weights, n_pairs);
  switch (n_pairs) {
    case 1: return blend_values(Blend<1>(rows, weights), width, clamp, table, planes);
    case 2: return blend_values(Blend<2>(rows, weights), width, clamp, table, planes);
    case 3: return blend_values(Blend<3>(rows, weights), width, clamp, table, planes);
    default: return blend_values(AnyBlend(rows, weights, n_pairs), width, clamp, table, planes);
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace {

HWY_EXPORT(resample_rows);
HWY_EXPORT(blend_rows);
HWY_EXPORT(blend_to_planes);
HWY_EXPORT(store_row_f32);
HWY_EXPORT(store_row_u8);

void resample_rows(const uint8_t* const* rows, int n_rows, const Taps& taps, uint8_t* const* outs) {
  HWY_DYNAMIC_DISPATCH(resample_rows)(rows, n_rows, taps, outs);
}

void blend_rows(const uint8_t* const* rows, const TapPair* weights, int n_pairs, int32_t width, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(blend_rows)(rows, weights, n_pairs, width, out);
}

void store_row(const uint8_t* row, int32_t width, const ValueTable& table, void* const* planes) {
  if (table.math_is_exact) HWY_DYNAMIC_DISPATCH(store_row_f32)(row, width, table, planes);
  else if (table.type == DType::u8) HWY_DYNAMIC_DISPATCH(store_row_u8)(row, width, table, planes);
  else scalar::store_row(row, width, table, planes);
}

void blend_to_planes(const uint8_t* const* rows, const TapPair* weights, int n_pairs, int32_t width, const ValueTable& table,
                     void* const* planes) {
  HWY_DYNAMIC_DISPATCH(blend_to_planes)(rows, weights, n_pairs, width, table, planes);
}

bool math_gives_table(const ValueTable& table) {
  if (table.type != DType::f32) return false;
  std::array<uint8_t, 256 * kPixelBytes> every_byte;
  for (size_t i = 0; i < every_byte.size(); ++i) every_byte[i] = static_cast<uint8_t>(i / kPixelBytes);
  std::array<std::array<float, 256>, 3> values;
  void* const planes[3] = {values[0].data(), values[1].data(), values[2].data()};
  HWY_DYNAMIC_DISPATCH(store_row_f32)(every_byte.data(), 256, table, planes);
  for (int c = 0; c < 3; ++c)
    if (std::memcmp(values[c].data(), table.channels[c].data(), sizeof(values[c])) != 0) return false;
  return true;
}

}  // namespace millrace
#endif  // HWY_ONCE
