// Bilinear and bicubic rows of affine maps, with a divisor or without, compiled once per instruction set
// (Highway's foreach_target); the best one is chosen at run time. A vector holds as many pixels as f64
// numbers.
#include "transforms/affine_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/affine_kernel.cpp"
#include "base/simd_targets.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::transforms {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

using scalar::map_smooth;

#else

namespace hn = hwy::HWY_NAMESPACE;

const hn::ScalableTag<double> df;
const hn::Rebind<int32_t, decltype(df)> d32;
const hn::RebindToUnsigned<decltype(d32)> du32;
using VF = hn::Vec<decltype(df)>;
using V32 = hn::Vec<decltype(d32)>;
using VU32 = hn::Vec<decltype(du32)>;

template <int kChannel>
HWY_INLINE VF channel(VU32 pixels) {
  const VU32 bytes = hn::And(hn::ShiftRight<8 * kChannel>(pixels), hn::Set(du32, 0xFF));
  return hn::PromoteTo(df, hn::BitCast(d32, bytes));
}

// Filters over kTaps pixels along each axis, weighted by polynomials of `d`, the distance past the first of
// the two middle pixels.
struct Linear {
  static constexpr int kTaps = 2;
  static HWY_INLINE VF between(const VF* v, VF d) { return hn::Add(v[0], hn::Mul(hn::Sub(v[1], v[0]), d)); }
};
struct Cubic {
  static constexpr int kTaps = 4;
  static HWY_INLINE VF between(const VF* v, VF d) {
    const VF p2 = hn::Sub(v[2], v[0]);
    const VF p3 = hn::Sub(hn::Add(hn::Mul(hn::Set(df, 2), hn::Sub(v[0], v[1])), v[2]), v[3]);
    const VF p4 = hn::Add(hn::Sub(hn::Sub(v[1], v[0]), v[2]), v[3]);
    return hn::Add(v[1], hn::Mul(d, hn::Add(p2, hn::Mul(d, hn::Add(p3, hn::Mul(d, p4))))));
  }
};

// Positions along one axis. `at`: the window's kTaps pixels around each position, times `scale`. `share`: the
// distance of the position past the first of the two middle pixels.
template <int kTaps>
struct Around {
  V32 at[kTaps];
  VF share;
  HWY_INLINE Around(VF position, int32_t window_begin, int32_t window_size, int32_t scale) {
    const VF half_back = hn::Sub(position, hn::Set(df, 0.5)), floor = hn::Floor(half_back);
    share = hn::Sub(half_back, floor);
    const VF last = hn::Set(df, window_size - 1);
    for (int i = 0; i < kTaps; ++i) {
      const VF inside = hn::Sub(floor, hn::Set(df, window_begin + (kTaps / 2 - 1) - i));
      at[i] = hn::Mul(hn::DemoteTo(d32, hn::Min(hn::Max(inside, hn::Zero(df)), last)), hn::Set(d32, scale));
    }
  }
};

template <class Filter, int kChannel>
HWY_INLINE VU32 mixed(const VU32 (&pixels)[Filter::kTaps][Filter::kTaps], VF right, VF down) {
  VF rows[Filter::kTaps];
  for (int j = 0; j < Filter::kTaps; ++j) {
    VF across[Filter::kTaps];
    for (int i = 0; i < Filter::kTaps; ++i) across[i] = channel<kChannel>(pixels[j][i]);
    rows[j] = Filter::between(across, right);
  }
  const VF level = hn::Min(hn::Max(Filter::between(rows, down), hn::Zero(df)), hn::Set(df, 255));
  return hn::ShiftLeft<8 * kChannel>(hn::BitCast(du32, hn::DemoteTo(d32, level)));  // rounds towards 0
}

template <class Filter, bool kDivides>
HWY_INLINE void map_by(const AffineMap& map, base::ImageView window, std::span<const int32_t> columns,
                       int32_t row, uint8_t* out) {
  constexpr int kTaps = Filter::kTaps;
  const Homography& m = map.inverse;
  const size_t lanes = hn::Lanes(df);
  const VF x_step = hn::Set(df, m[0]), x_row = hn::Set(df, m[1] * (row + 0.5)), x_shift = hn::Set(df, m[2]);
  const VF y_step = hn::Set(df, m[3]), y_row = hn::Set(df, m[4] * (row + 0.5)), y_shift = hn::Set(df, m[5]);
  const VF d_step = hn::Set(df, m[6]), d_row = hn::Set(df, m[7] * (row + 0.5));
  const VF width = hn::Set(df, map.picture.width), height = hn::Set(df, map.picture.height),
           zero = hn::Zero(df);
  const VU32 fill = hn::Set(du32, map.fill[0] | map.fill[1] << 8 | map.fill[2] << 16);
  const auto stride = static_cast<int32_t>(window.stride_bytes);
  const auto* const first_pixel = reinterpret_cast<const uint32_t*>(window.data);
  const hn::Repartition<uint8_t, decltype(du32)> bytes;
  size_t done = 0;
  for (; done + lanes <= columns.size(); done += lanes) {
    const VF center = hn::Add(hn::PromoteTo(df, hn::LoadU(d32, columns.data() + done)), hn::Set(df, 0.5));
    VF x = hn::Add(hn::Add(hn::Mul(x_step, center), x_row), x_shift);
    VF y = hn::Add(hn::Add(hn::Mul(y_step, center), y_row), y_shift);
    if constexpr (kDivides) {
      const VF divisor = hn::Add(hn::Add(hn::Mul(d_step, center), d_row), hn::Set(df, 1));
      x = hn::Div(x, divisor);
      y = hn::Div(y, divisor);
    }
    const auto inside =
        hn::And(hn::And(hn::Ge(x, zero), hn::Lt(x, width)), hn::And(hn::Ge(y, zero), hn::Lt(y, height)));
    if constexpr (kDivides) {  // the result of a division by 0 is no position
      x = hn::IfThenElseZero(inside, x);
      y = hn::IfThenElseZero(inside, y);
    }
    const Around<kTaps> along(x, map.left, window.width, base::kPixelBytes),
        down(y, map.top, window.height, stride);
    VU32 pixels[kTaps][kTaps];
    for (int j = 0; j < kTaps; ++j)
      for (int i = 0; i < kTaps; ++i)
        pixels[j][i] = hn::GatherOffset(du32, first_pixel, hn::Add(down.at[j], along.at[i]));
    const VU32 colors = hn::Or(mixed<Filter, 0>(pixels, along.share, down.share),
                               hn::Or(mixed<Filter, 1>(pixels, along.share, down.share),
                                      mixed<Filter, 2>(pixels, along.share, down.share)));
    const auto shown = hn::Ne(hn::DemoteTo(d32, hn::IfThenElseZero(inside, hn::Set(df, 1))), hn::Zero(d32));
    const VU32 result = hn::IfThenElse(hn::RebindMask(du32, shown), colors, fill);
    hn::StoreU(hn::BitCast(bytes, result), bytes, out + done * base::kPixelBytes);
  }
  scalar::map_smooth(map, window, columns.subspan(done), row, out + done * base::kPixelBytes);
}

void map_smooth(const AffineMap& map, base::ImageView window, std::span<const int32_t> columns, int32_t row,
                uint8_t* out) {
  const bool linear = map.interpolation == Interpolation::bilinear;
  if (map.divides)
    return linear ? map_by<Linear, true>(map, window, columns, row, out)
                  : map_by<Cubic, true>(map, window, columns, row, out);
  return linear ? map_by<Linear, false>(map, window, columns, row, out)
                : map_by<Cubic, false>(map, window, columns, row, out);
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace millrace::transforms
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::transforms {

HWY_EXPORT(map_smooth);

void map_smooth(const AffineMap& map, base::ImageView window, std::span<const int32_t> columns, int32_t row,
                uint8_t* out) {
  // Offsets of pixels have 32 bits; no picture within the pixel limits comes near that.
  if (window.stride_bytes * window.height > INT32_MAX)
    return scalar::map_smooth(map, window, columns, row, out);
  HWY_DYNAMIC_DISPATCH(map_smooth)(map, window, columns, row, out);
}

}  // namespace millrace::transforms
#endif  // HWY_ONCE
