// The vector kernels across rows and into planes. This file is compiled once per instruction set (Highway's
// foreach_target) and the best one is chosen at run time. A vector holds neighbouring pixels, one 32-bit lane
// each.
#include "transforms/kernels.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/geometry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/blend_kernels.cpp"
#include "base/simd_targets.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "transforms/weighted_sum.inl"

HWY_BEFORE_NAMESPACE();
namespace millrace::transforms {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

using scalar::blend_rows;
using scalar::blend_to_planes;
using scalar::mix_to_planes;
void store_row_f32(const uint8_t* row, int32_t width, const ValueTable& table, void* const* planes) {
  scalar::store_row(row, width, table, planes);
}
void store_row_u8(const uint8_t* row, int32_t width, const ValueTable& table, void* const* planes) {
  scalar::store_row(row, width, table, planes);
}

#else

struct Channels {
  V32 r, g, b;
};

struct BlendSums {
  Sum r, g, b;
  HWY_INLINE BlendSums() {}
  HWY_INLINE void add(const uint8_t* row0, const uint8_t* row1, V16 high, V16 low) {
    const VU32 first = hn::BitCast(du32, hn::LoadU(d8, row0)),
               second = hn::BitCast(du32, hn::LoadU(d8, row1));
    const auto red_green =
        hn::OddEven(hn::BitCast(du16, hn::ShiftLeft<16>(second)), hn::BitCast(du16, first));
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
    for (int p = 0; p < kPairs; ++p)
      sums.add(rows_[2 * p] + offset, rows_[2 * p + 1] + offset, high_[p], low_[p]);
    return sums.rounded();
  }

 private:
  const uint8_t* rows_[2 * kPairs];
  V16 high_[kPairs], low_[kPairs];
};

// Any number of pairs.
class AnyBlend {
 public:
  HWY_INLINE AnyBlend(const uint8_t* const* rows, const TapPair* weights, int pairs)
      : rows_(rows), weights_(weights), pairs_(pairs) {}
  HWY_INLINE Channels at(int64_t offset) const {
    BlendSums sums;
    for (int p = 0; p < pairs_; ++p)
      sums.add(rows_[2 * p] + offset, rows_[2 * p + 1] + offset, broadcast(weights_[p].high),
               broadcast(weights_[p].low));
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
    const int64_t at =
        int64_t{std::min(x, width - kLanes)} * base::kPixelBytes;  // the last vector overlaps the one before
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

void blend_rows(const uint8_t* const* rows, const TapPair* weights, int n_pairs, int32_t width,
                uint8_t* out) {
  if (width < kLanes || n_pairs > kMostPairs) return scalar::blend_rows(rows, weights, n_pairs, width, out);
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

// ChannelMath with its constants in registers: the compiler could not keep them there, as any store may
// change the table.
class ChannelValues {
 public:
  HWY_INLINE explicit ChannelValues(const ChannelMath& m)
      : scale_high_(hn::Set(df, m.scale_high)), scale_low_(hn::Set(df, m.scale_low)),
        mean_(hn::Set(df, m.mean)), inverse_(hn::Set(df, m.inverse)), std_(hn::Set(df, m.std)) {}

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

// A row's places in three planes, and side by side in one.
class InPlanes {
 public:
  HWY_INLINE explicit InPlanes(void* const* planes)
      : red_(static_cast<float*>(planes[0])), green_(static_cast<float*>(planes[1])),
        blue_(static_cast<float*>(planes[2])) {}
  HWY_INLINE void put(VF red, VF green, VF blue, int32_t at) const {
    hn::StoreU(red, df, red_ + at);
    hn::StoreU(green, df, green_ + at);
    hn::StoreU(blue, df, blue_ + at);
  }

 private:
  float *red_, *green_, *blue_;
};
class SideBySide {
 public:
  HWY_INLINE explicit SideBySide(void* const* planes) : row_(static_cast<float*>(planes[0])) {}
  HWY_INLINE void put(VF red, VF green, VF blue, int32_t at) const {
    hn::StoreInterleaved3(red, green, blue, df, row_ + 3 * int64_t{at});
  }

 private:
  float* row_;
};

template <class Places>
HWY_INLINE void store_values(const uint8_t* row, int32_t width, const ValueTable& table,
                             const Places& places) {
  const ChannelValues red(table.math[0]), green(table.math[1]), blue(table.math[2]);
  for (int32_t x = 0; x < width; x += kLanes) {
    const int32_t at = std::min(x, width - kLanes);
    const VU32 pixels = hn::BitCast(du32, hn::LoadU(d8, row + int64_t{at} * base::kPixelBytes));
    places.put(red.of(channel_of<0>(pixels)), green.of(channel_of<1>(pixels)), blue.of(channel_of<2>(pixels)),
               at);
  }
}

void store_row_f32(const uint8_t* row, int32_t width, const ValueTable& table, void* const* planes) {
  if (width < kLanes) return scalar::store_row(row, width, table, planes);
  if (table.interleaved) return store_values(row, width, table, SideBySide(planes));
  store_values(row, width, table, InPlanes(planes));
}

void mix_to_planes(const uint8_t* own_row, const uint8_t* other_row, int32_t width, const ValueTable& table,
                   float own, float other, void* const* planes) {
  if (width < kLanes) return scalar::mix_to_planes(own_row, other_row, width, table, own, other, planes);
  const ChannelValues red(table.math[0]), green(table.math[1]), blue(table.math[2]);
  const VF first = hn::Set(df, own), second = hn::Set(df, other);
  const auto mixed = [&](const ChannelValues& values, V32 a, V32 b) HWY_ATTR {
    return hn::Add(hn::Mul(values.of(a), first), hn::Mul(values.of(b), second));
  };
  auto* const r = static_cast<float*>(planes[0]);
  auto* const g = static_cast<float*>(planes[1]);
  auto* const b = static_cast<float*>(planes[2]);
  for (int32_t x = 0; x < width; x += kLanes) {
    const int32_t at = std::min(x, width - kLanes);
    const int64_t byte = int64_t{at} * base::kPixelBytes;
    const VU32 one = hn::BitCast(du32, hn::LoadU(d8, own_row + byte)),
               two = hn::BitCast(du32, hn::LoadU(d8, other_row + byte));
    hn::StoreU(mixed(red, channel_of<0>(one), channel_of<0>(two)), df, r + at);
    hn::StoreU(mixed(green, channel_of<1>(one), channel_of<1>(two)), df, g + at);
    hn::StoreU(mixed(blue, channel_of<2>(one), channel_of<2>(two)), df, b + at);
  }
}

void store_row_u8(const uint8_t* row, int32_t width, const ValueTable& table, void* const* planes) {
  if (width < kLanes) return scalar::store_row(row, width, table, planes);
  const hn::FixedTag<uint8_t, kLanes> bytes;
  for (int32_t x = 0; x < width; x += kLanes) {
    const int32_t at = std::min(x, width - kLanes);
    const VU32 pixels = hn::BitCast(du32, hn::LoadU(d8, row + int64_t{at} * base::kPixelBytes));
    const auto red = hn::DemoteTo(bytes, channel_of<0>(pixels));
    const auto green = hn::DemoteTo(bytes, channel_of<1>(pixels));
    const auto blue = hn::DemoteTo(bytes, channel_of<2>(pixels));
    if (table.interleaved) {
      hn::StoreInterleaved3(red, green, blue, bytes, static_cast<uint8_t*>(planes[0]) + 3 * int64_t{at});
      continue;
    }
    hn::StoreU(red, bytes, static_cast<uint8_t*>(planes[0]) + at);
    hn::StoreU(green, bytes, static_cast<uint8_t*>(planes[1]) + at);
    hn::StoreU(blue, bytes, static_cast<uint8_t*>(planes[2]) + at);
  }
}

// ---- blend_to_planes

template <class BlendOf, class Places>
HWY_INLINE void blend_values_to(const Places& places, const BlendOf& source, int32_t width, bool clamp,
                                const ValueTable& table) {
  const ChannelValues red(table.math[0]), green(table.math[1]), blue(table.math[2]);
  for (int32_t x = 0; x < width; x += kLanes) {
    const int32_t at = std::min(x, width - kLanes);
    Channels c = source.at(int64_t{at} * base::kPixelBytes);
    if (clamp) c = clamped(c);
    places.put(red.of(c.r), green.of(c.g), blue.of(c.b), at);
  }
}

template <class BlendOf>
HWY_INLINE void blend_values(const BlendOf& source, int32_t width, bool clamp, const ValueTable& table,
                             void* const* planes) {
  if (table.interleaved) return blend_values_to(SideBySide(planes), source, width, clamp, table);
  blend_values_to(InPlanes(planes), source, width, clamp, table);
}

void blend_to_planes(const uint8_t* const* rows, const TapPair* weights, int n_pairs, int32_t width,
                     const ValueTable& table, void* const* planes) {
  if (width < kLanes || n_pairs > kMostPairs)
    return scalar::blend_to_planes(rows, weights, n_pairs, width, table, planes);
  const bool clamp = any_negative(weights, n_pairs);
  switch (n_pairs) {
    case 1: return blend_values(Blend<1>(rows, weights), width, clamp, table, planes);
    case 2: return blend_values(Blend<2>(rows, weights), width, clamp, table, planes);
    case 3: return blend_values(Blend<3>(rows, weights), width, clamp, table, planes);
    default: return blend_values(AnyBlend(rows, weights, n_pairs), width, clamp, table, planes);
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace millrace::transforms
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::transforms {

HWY_EXPORT(blend_rows);
HWY_EXPORT(blend_to_planes);
HWY_EXPORT(store_row_f32);
HWY_EXPORT(store_row_u8);
HWY_EXPORT(mix_to_planes);

void blend_rows(const uint8_t* const* rows, const TapPair* weights, int n_pairs, int32_t width,
                uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(blend_rows)(rows, weights, n_pairs, width, out);
}

void store_row(const uint8_t* row, int32_t width, const ValueTable& table, void* const* planes) {
  if (table.math_is_exact)
    HWY_DYNAMIC_DISPATCH(store_row_f32)(row, width, table, planes);
  else if (table.type == base::DType::u8)
    HWY_DYNAMIC_DISPATCH(store_row_u8)(row, width, table, planes);
  else
    scalar::store_row(row, width, table, planes);
}

void blend_to_planes(const uint8_t* const* rows, const TapPair* weights, int n_pairs, int32_t width,
                     const ValueTable& table, void* const* planes) {
  HWY_DYNAMIC_DISPATCH(blend_to_planes)(rows, weights, n_pairs, width, table, planes);
}

void mix_to_planes(const uint8_t* own_row, const uint8_t* other_row, int32_t width, const ValueTable& table,
                   float own, float other, void* const* planes) {
  if (table.math_is_exact)
    HWY_DYNAMIC_DISPATCH(mix_to_planes)(own_row, other_row, width, table, own, other, planes);
  else
    scalar::mix_to_planes(own_row, other_row, width, table, own, other, planes);
}

bool math_gives_table(const ValueTable& table) {
  if (table.type != base::DType::f32) return false;
  std::array<uint8_t, 256 * base::kPixelBytes> every_byte;
  for (size_t i = 0; i < every_byte.size(); ++i) every_byte[i] = static_cast<uint8_t>(i / base::kPixelBytes);
  std::array<std::array<float, 256>, 3> values;
  void* const planes[3] = {values[0].data(), values[1].data(), values[2].data()};
  HWY_DYNAMIC_DISPATCH(store_row_f32)(every_byte.data(), 256, table, planes);
  for (int c = 0; c < 3; ++c)
    if (std::memcmp(values[c].data(), table.channels[c].data(), sizeof(values[c])) != 0) return false;
  return true;
}

}  // namespace millrace::transforms
#endif  // HWY_ONCE
