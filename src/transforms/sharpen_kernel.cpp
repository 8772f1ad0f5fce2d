// The vector kernel of sharpness, a lane for each byte. This file is compiled once per instruction set
// (Highway's foreach_target) and the best one is chosen at run time.
#include "transforms/sharpen_kernel.h"

#include <algorithm>
#include <cstring>

#include "base/geometry.h"
#include "transforms/byte_pixels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/sharpen_kernel.cpp"
#include "base/simd_targets.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::transforms {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

using scalar::sharpen_row;

#else

namespace hn = hwy::HWY_NAMESPACE;

void sharpen_row(const uint8_t* above, const uint8_t* row, const uint8_t* below, int32_t width, bool at_edge,
                 float factor, uint8_t* out) {
  if (at_edge || width < 3) return scalar::sharpen_row(above, row, below, width, at_edge, factor, out);
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<uint16_t, decltype(df)> du16;
  const hn::Rebind<uint8_t, decltype(df)> bytes;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  const auto weight = hn::Set(df, factor), most = hn::Set(df, 255), none = hn::Zero(df);
  const auto load = [&](const uint8_t* at) HWY_ATTR { return hn::PromoteTo(du16, hn::LoadU(bytes, at)); };
  constexpr int64_t kPixel = base::kPixelBytes;
  const int64_t end = int64_t{width - 1} * kPixel;
  int64_t i = kPixel;
  for (; i + lanes <= end; i += lanes) {
    const auto three = [&](const uint8_t* line) HWY_ATTR {
      return hn::Add(hn::Add(load(line + i - kPixel), load(line + i)), load(line + i + kPixel));
    };
    const auto value = load(row + i);
    const auto sum =
        hn::Add(hn::Add(three(above), three(below)), hn::Add(three(row), hn::ShiftLeft<2>(value)));
    // Rounded: (sum + 6) / 13, by a product that is exact for all sums that there are.
    const auto mean = hn::MulHigh(hn::Add(sum, hn::Set(du16, 6)), hn::Set(du16, 5042));
    const auto a = hn::ConvertTo(df, hn::PromoteTo(di, mean)),
               b = hn::ConvertTo(df, hn::PromoteTo(di, value));
    const auto mixed = hn::Add(a, hn::Mul(weight, hn::Sub(b, a)));
    const auto result = hn::ConvertTo(di, hn::Min(hn::Max(mixed, none), most));
    hn::StoreU(hn::DemoteTo(bytes, result), bytes, out + i);
  }
  // The rest as a short row of its own, together with its neighbours.
  const auto done = static_cast<int32_t>(i / kPixel);
  uint8_t last[kPixel * (HWY_MAX_BYTES / 4 + 2)];
  const int64_t from = int64_t{done - 1} * kPixel;
  const int32_t rest = width - done + 1;
  scalar::sharpen_row(above + from, row + from, below + from, rest, false, factor, last);
  std::memcpy(out + int64_t{done} * kPixel, last + kPixel, int64_t{rest - 1} * kPixel);
  std::memcpy(out, row, kPixel);
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace millrace::transforms
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::transforms {

HWY_EXPORT(sharpen_row);

void sharpen_row(const uint8_t* above, const uint8_t* row, const uint8_t* below, int32_t width, bool at_edge,
                 float factor, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(sharpen_row)(above, row, below, width, at_edge, factor, out);
}

namespace scalar {

void sharpen_row(const uint8_t* above, const uint8_t* row, const uint8_t* below, int32_t width, bool at_edge,
                 float factor, uint8_t* out) {
  constexpr int kPixel = base::kPixelBytes;
  const int64_t count = int64_t{width} * kPixel;
  if (at_edge) {
    std::memcpy(out, row, count);
    return;
  }
  std::memcpy(out, row, kPixel);
  for (int64_t i = kPixel; i < count - kPixel; ++i) {
    int sum = 4 * row[i];
    for (const uint8_t* line : {above, row, below}) sum += line[i - kPixel] + line[i] + line[i + kPixel];
    out[i] = static_cast<uint8_t>(sharpened8(sum, row[i], factor));
  }
  if (width > 1) std::memcpy(out + count - kPixel, row + count - kPixel, kPixel);
}

}  // namespace scalar

}  // namespace millrace::transforms
#endif  // HWY_ONCE
