#include "transforms/picture_mixer.h"

#include "transforms/byte_pixels.h"
#include "transforms/stage_runner.h"

namespace millrace::transforms {
namespace {

void blend(base::ImageView base, base::ImageView value, float share, base::ImageView out) {
  const int64_t bytes = int64_t{base.width} * base::kPixelBytes;
  for (int32_t y = 0; y < base.height; ++y) {
    const uint8_t *a = base.row(y), *b = value.row(y);
    uint8_t* to = out.row(y);
    for (int64_t i = 0; i < bytes; ++i) to[i] = static_cast<uint8_t>(blended8(a[i], b[i], share));
  }
}

}  // namespace

PictureMixer::PictureMixer() : runner_(std::make_unique<StageRunner>()) {}
PictureMixer::~PictureMixer() = default;

base::ImageView PictureMixer::mixed(const MixStep& mix, base::ImageView picture) {
  const base::ImageView result = result_.resize(picture.width, picture.height);
  if (mix.blended) {
    base::copy_pixels(picture, result);
    for (const MixParams::Copy& part : mix.params.copies)
      blend(result, changed(part.steps, mix, picture), part.share, result);
    return result;
  }
  const int64_t bytes = int64_t{picture.width} * base::kPixelBytes;
  sums_.assign(static_cast<size_t>(bytes * picture.height), 0.0f);
  for (const MixParams::Copy& part : mix.params.copies) {
    const base::ImageView copy = changed(part.steps, mix, picture);
    float* sum = sums_.data();
    for (int32_t y = 0; y < copy.height; ++y, sum += bytes)
      for (int64_t i = 0; i < bytes; ++i) sum[i] += part.share * static_cast<float>(copy.row(y)[i]);
  }
  const float* sum = sums_.data();
  for (int32_t y = 0; y < result.height; ++y, sum += bytes)
    for (int64_t i = 0; i < bytes; ++i) result.row(y)[i] = static_cast<uint8_t>(level_of(sum[i]));
  blend(picture, result, mix.params.share, result);
  return result;
}

base::ImageView PictureMixer::changed(const std::vector<AugmentStep>& steps, const MixStep& mix,
                                      base::ImageView picture) {
  plan_.steps.clear();
  for (const AugmentStep& step : steps) add_operation(step, mix.fill, plan_.steps);
  make_sample_plan(plan_.steps, {picture.width, picture.height}, plan_);
  const base::ImageView out = copy_.resize(picture.width, picture.height);
  runner_->run(plan_, picture.part(plan_.region), out);
  return out;
}

}  // namespace millrace::transforms
