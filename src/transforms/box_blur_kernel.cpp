// The vector kernel of box blurs. This file is compiled once per instruction set (Highway's foreach_target)
// and the best one is chosen at run time. A block of columns is followed down the picture with its sums in
// registers.
#include "transforms/box_blur_kernel.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/box_blur_kernel.cpp"
#include "base/simd_targets.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::transforms {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

using scalar::blur_columns;

#else

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kSlack = 64;

void blur_columns(base::ImageView in, const Box& box, base::ImageView out) {
  const hn::CappedTag<uint32_t, kSlack / 4> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V inner = hn::Set(d, box.inner), outer = hn::Set(d, box.outer);
  const V half = hn::Set(d, 1u << (kBoxFractionBits - 1));
  const int32_t last = in.height - 1;
  const int64_t width = int64_t{in.width} * base::kPixelBytes;
  for (int64_t x = 0; x < width; x += 4 * lanes) {
    const auto load = [&](int32_t y, int64_t part) HWY_ATTR {
      const uint8_t* row = in.row(std::clamp(y, 0, last)) + x + part * lanes;
      return hn::PromoteTo(d, hn::LoadU(bytes, row));
    };
    V sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    for (int32_t y = -box.reach; y <= box.reach; ++y) {
      sum0 = hn::Add(sum0, load(y, 0));
      sum1 = hn::Add(sum1, load(y, 1));
      sum2 = hn::Add(sum2, load(y, 2));
      sum3 = hn::Add(sum3, load(y, 3));
    }
    for (int32_t y = 0; y <= last; ++y) {
      uint8_t* to = out.row(y) + x;
      const auto step = [&](V& sum, int64_t part) HWY_ATTR {
        const V before = load(y - box.reach - 1, part), behind = load(y + box.reach + 1, part);
        const V far = hn::Add(before, behind);
        const V mixed = hn::Add(hn::Add(hn::Mul(sum, inner), hn::Mul(far, outer)), half);
        const V level = hn::ShiftRight<kBoxFractionBits>(mixed);
        hn::StoreU(hn::DemoteTo(bytes, hn::BitCast(di, level)), bytes, to + part * lanes);
        sum = hn::Add(sum, hn::Sub(behind, load(y - box.reach, part)));
      };
      step(sum0, 0);
      step(sum1, 1);
      step(sum2, 2);
      step(sum3, 3);
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

HWY_EXPORT(blur_columns);

void blur_columns(base::ImageView in, const Box& box, base::ImageView out) {
  HWY_DYNAMIC_DISPATCH(blur_columns)(in, box, out);
}

namespace scalar {

void blur_columns(base::ImageView in, const Box& box, base::ImageView out) {
  const auto at = [&](int32_t y, int64_t i) { return uint32_t{in.row(std::clamp(y, 0, in.height - 1))[i]}; };
  for (int64_t i = 0; i < int64_t{in.width} * base::kPixelBytes; ++i) {
    uint32_t sum = 0;
    for (int32_t y = -box.reach; y <= box.reach; ++y) sum += at(y, i);
    for (int32_t y = 0; y < in.height; ++y) {
      const uint32_t behind = at(y + box.reach + 1, i), far = at(y - box.reach - 1, i) + behind;
      out.row(y)[i] = static_cast<uint8_t>(box_level(sum, far, box));
      sum += behind - at(y - box.reach, i);
    }
  }
}

}  // namespace scalar

}  // namespace millrace::transforms
#endif  // HWY_ONCE
