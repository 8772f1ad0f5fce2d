// The vector kernel along rows. This file is compiled once per instruction set (Highway's foreach_target) and
// the best one is chosen at run time. Block r of a vector belongs to row r, so that one weight serves all
// rows.
#include "transforms/kernels.h"

#include <algorithm>

#include "base/geometry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/resample_kernel.cpp"
#include "base/simd_targets.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "transforms/weighted_sum.inl"

HWY_BEFORE_NAMESPACE();
namespace millrace::transforms {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

using scalar::resample_rows;

#else

// kBytes (8 or 16) of each row in the lower part of its block.
template <int kBytes>
HWY_INLINE V8 load_blocks(const uint8_t* const* rows, int64_t offset) {
  const hn::FixedTag<uint8_t, 16> block;
  const auto load = [&](int r) HWY_ATTR {
    if constexpr (kBytes == 16)
      return hn::LoadU(block, rows[r] + offset);
    else
      return hn::ZeroExtendVector(block, hn::LoadU(hn::FixedTag<uint8_t, 8>(), rows[r] + offset));
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

HWY_INLINE V16 pair_lanes(V8 pixels, V8 shuffle) {
  return hn::BitCast(d16, hn::TableLookupBytesOr0(pixels, shuffle));
}

// One output of all rows: block r holds R G B X of row r. kPairs == 0: any number.
template <int kPairs>
HWY_INLINE V32 resample_pixel(const uint8_t* const* rows, int32_t start, const TapPair* weights,
                              int any_pairs, const PairShuffles& shuffles) {
  const int pairs = kPairs ? kPairs : any_pairs;
  Sum sum;
  int64_t offset = int64_t{start} * base::kPixelBytes;
  int p = 0;
  for (; p + 2 <= pairs; p += 2, offset += 4 * base::kPixelBytes) {
    const V8 pixels = load_blocks<16>(rows, offset);
    sum.add(pair_lanes(pixels, shuffles.first), broadcast(weights[p].high), broadcast(weights[p].low));
    sum.add(pair_lanes(pixels, shuffles.second), broadcast(weights[p + 1].high),
            broadcast(weights[p + 1].low));
  }
  if (p < pairs)
    sum.add(pair_lanes(load_blocks<8>(rows, offset), shuffles.first), broadcast(weights[p].high),
            broadcast(weights[p].low));
  return sum.rounded();
}

// Four pixels of 32-bit channels per block to four pixels of bytes per block, clamped.
HWY_INLINE V8 pack_pixels(V32 p0, V32 p1, V32 p2, V32 p3) {
  const auto clamp = [](V16 v)
                         HWY_ATTR { return hn::Min(hn::Max(v, hn::Zero(d16)), hn::Set(d16, int16_t{255})); };
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
    store_blocks(pack_pixels(p0, p1, p2, p3), outs, int64_t{o} * base::kPixelBytes);
  }
}

void resample_rows(const uint8_t* const* rows, int n_rows, const Taps& taps, uint8_t* const* outs) {
  if (2 * taps.pairs > taps.in_size || taps.pairs > kMostPairs)
    return scalar::resample_rows(rows, n_rows, taps, outs);
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

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace millrace::transforms
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::transforms {

HWY_EXPORT(resample_rows);

void resample_rows(const uint8_t* const* rows, int n_rows, const Taps& taps, uint8_t* const* outs) {
  HWY_DYNAMIC_DISPATCH(resample_rows)(rows, n_rows, taps, outs);
}

}  // namespace millrace::transforms
#endif  // HWY_ONCE
