// The kernels of blur_kernels.h, compiled once per instruction set (Highway's foreach_target); the best one
// is chosen at run time.
#include "transforms/blur_kernels.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/blur_kernels.cpp"
#include "base/simd_targets.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::transforms {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

const hn::ScalableTag<float> df;
const hn::RebindToSigned<decltype(df)> d32;
const hn::Rebind<uint8_t, decltype(df)> d8;
using VF = hn::Vec<decltype(df)>;

void weigh_down(const uint8_t* rows, ptrdiff_t stride, std::span<const float> weights, size_t begin,
                size_t end, float* out) {
  size_t i = begin;
  for (; i + hn::Lanes(df) <= end; i += hn::Lanes(df)) {
    VF sum = hn::Zero(df);
    const uint8_t* from = rows + i;
    for (const float weight : weights) {
      const VF value = hn::ConvertTo(df, hn::PromoteTo(d32, hn::LoadU(d8, from)));
      sum = hn::Add(sum, hn::Mul(hn::Set(df, weight), value));
      from += stride;
    }
    hn::StoreU(sum, df, out + i);
  }
  scalar::weigh_down(rows, stride, weights, i, end, out);
}

void weigh_along(const float* in, size_t step, std::span<const float> weights, size_t begin, size_t end,
                 uint8_t* out) {
  size_t i = begin;
  for (; i + hn::Lanes(df) <= end; i += hn::Lanes(df)) {
    VF sum = hn::Zero(df);
    const float* from = in + i;
    for (const float weight : weights) {
      sum = hn::Add(sum, hn::Mul(hn::Set(df, weight), hn::LoadU(df, from)));
      from += step;
    }
    hn::StoreU(hn::DemoteTo(d8, hn::NearestInt(sum)), d8, out + i);
  }
  scalar::weigh_along(in, step, weights, i, end, out);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace millrace::transforms
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::transforms {

HWY_EXPORT(weigh_down);
HWY_EXPORT(weigh_along);

void weigh_blur(double sigma, int32_t taps, std::vector<float>& weights) {
  weights.resize(static_cast<size_t>(taps));
  double sum = 0;
  const auto density = [&](int32_t i) { return std::exp(-0.5 * std::pow((i - taps / 2) / sigma, 2)); };
  for (int32_t i = 0; i < taps; ++i) sum += density(i);
  for (int32_t i = 0; i < taps; ++i) weights[static_cast<size_t>(i)] = static_cast<float>(density(i) / sum);
}

void weigh_down(const uint8_t* rows, ptrdiff_t stride, std::span<const float> weights, size_t begin,
                size_t end, float* out) {
  HWY_DYNAMIC_DISPATCH(weigh_down)(rows, stride, weights, begin, end, out);
}
void weigh_along(const float* in, size_t step, std::span<const float> weights, size_t begin, size_t end,
                 uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(weigh_along)(in, step, weights, begin, end, out);
}

namespace scalar {

void weigh_down(const uint8_t* rows, ptrdiff_t stride, std::span<const float> weights, size_t begin,
                size_t end, float* out) {
  for (size_t i = begin; i < end; ++i) {
    float sum = 0;
    const uint8_t* from = rows + i;
    for (const float weight : weights) sum += weight * static_cast<float>(*from), from += stride;
    out[i] = sum;
  }
}

void weigh_along(const float* in, size_t step, std::span<const float> weights, size_t begin, size_t end,
                 uint8_t* out) {
  for (size_t i = begin; i < end; ++i) {
    float sum = 0;
    for (size_t t = 0; t < weights.size(); ++t) sum += weights[t] * in[i + t * step];
    out[i] = static_cast<uint8_t>(std::nearbyint(std::min(sum, 255.0f)));
  }
}

}  // namespace scalar
}  // namespace millrace::transforms
#endif  // HWY_ONCE
