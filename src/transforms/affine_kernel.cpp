// Bilinear rows of affine maps, compiled once per instruction set (Highway's foreach_target); the best one is chosen at run time. A
// vector holds as many pixels as f64 numbers.
#include "transforms/affine_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/affine_kernel.cpp"
#include "base/simd_targets.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

using scalar::map_bilinear;

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

HWY_INLINE VF between(VF from, VF to, VF share) { return hn::Add(from, hn::Mul(hn::Sub(to, from), share)); }

// The four pixels around each place, and where in between it lies.
struct Square {
  VU32 upper_left, upper_right, lower_left, lower_right;
  VF right, down;

  template <int kChannel>
  HWY_INLINE VU32 mixed() const {
    const VF upper = between(channel<kChannel>(upper_left), channel<kChannel>(upper_right), right);
    const VF lower = between(channel<kChannel>(lower_left), channel<kChannel>(lower_right), right);
    return hn::BitCast(du32, hn::DemoteTo(d32, between(upper, lower, down)));  // rounds towards 0
  }
};

// A position along one axis, as the two pixels of the window beside it.
struct Beside {
  V32 first, second;
  VF share;
  HWY_INLINE Beside(VF position, int32_t window_begin, int32_t window_size) {
    const VF half_back = hn::Sub(position, hn::Set(df, 0.5)), floor = hn::Floor(half_back);
    share = hn::Sub(half_back, floor);
    const auto inside = [&](VF at) HWY_ATTR {
      const VF last = hn::Set(df, window_size - 1);
      return hn::DemoteTo(d32, hn::Min(hn::Max(hn::Sub(at, hn::Set(df, window_begin)), hn::Zero(df)), last));
    };
    first = inside(floor);
    second = inside(hn::Add(floor, hn::Set(df, 1)));
  }
};

void map_bilinear(const AffineMap& map, ImageView window, std::span<const int32_t> columns, int32_t row, uint8_t* out) {
  const InverseAffine& m = map.inverse;
  const size_t lanes = hn::Lanes(df);
  const VF x_step = hn::Set(df, m[0]), x_row = hn::Set(df, m[1] * (row + 0.5)), x_shift = hn::Set(df, m[2]);
  const VF y_step = hn::Set(df, m[3]), y_row = hn::Set(df, m[4] * (row + 0.5)), y_shift = hn::Set(df, m[5]);
  const VF width = hn::Set(df, map.picture.width), height = hn::Set(df, map.picture.height), zero = hn::Zero(df);
  const VU32 fill = hn::Set(du32, map.fill[0] | map.fill[1] << 8 | map.fill[2] << 16);
  const V32 stride = hn::Set(d32, static_cast<int32_t>(window.stride_bytes));
  const auto* const pixels = reinterpret_cast<const uint32_t*>(window.data);
  size_t i = 0;
  for (; i + lanes <= columns.size(); i += lanes) {
    const VF center = hn::Add(hn::PromoteTo(df, hn::LoadU(d32, columns.data() + i)), hn::Set(df, 0.5));
    const VF x = hn::Add(hn::Add(hn::Mul(x_step, center), x_row), x_shift);
    const VF y = hn::Add(hn::Add(hn::Mul(y_step, center), y_row), y_shift);
    const auto inside = hn::And(hn::And(hn::Ge(x, zero), hn::Lt(x, width)), hn::And(hn::Ge(y, zero), hn::Lt(y, height)));
    const Beside along(x, map.left, window.width), down(y, map.top, window.height);
    const V32 upper = hn::Mul(down.first, stride), lower = hn::Mul(down.second, stride);
    const auto at = [&](V32 line, V32 column) HWY_ATTR {
      return hn::GatherOffset(du32, pixels, hn::Add(line, hn::ShiftLeft<2>(column)));
    };
    const Square square{at(upper, along.first), at(upper, along.second), at(lower, along.first), at(lower, along.second),
                        along.share, down.share};
    const VU32 mixed = hn::Or(square.mixed<0>(), hn::Or(hn::ShiftLeft<8>(square.mixed<1>()), hn::ShiftLeft<16>(square.mixed<2>())));
    const auto shown = hn::Ne(hn::DemoteTo(d32, hn::IfThenElseZero(inside, hn::Set(df, 1))), hn::Zero(d32));
    const hn::Repartition<uint8_t, decltype(du32)> bytes;
    hn::StoreU(hn::BitCast(bytes, hn::IfThenElse(hn::RebindMask(du32, shown), mixed, fill)), bytes, out + i * kPixelBytes);
  }
  scalar::map_bilinear(map, window, columns.subspan(i), row, out + i * kPixelBytes);
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace {

HWY_EXPORT(map_bilinear);

void map_bilinear(const AffineMap& map, ImageView window, std::span<const int32_t> columns, int32_t row, uint8_t* out) {
  // Pixels are found by 32-bit offsets; no picture that fits the pixel limits comes near.
  if (window.stride_bytes * window.height > INT32_MAX) return scalar::map_bilinear(map, window, columns, row, out);
  HWY_DYNAMIC_DISPATCH(map_bilinear)(map, window, columns, row, out);
}

}  // namespace millrace
#endif  // HWY_ONCE
