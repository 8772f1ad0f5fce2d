// PictureMixer: copies of a picture, each changed by operations of a policy, mixed into it, as timm's AugMix
// does it with Pillow and numpy.
//
// Shares are f32. Reuses its memory from picture to picture; one owner, one thread.
#pragma once

#include <memory>
#include <vector>

#include "base/geometry.h"
#include "transforms/pixel_buffer.h"
#include "transforms/sample_plan.h"

namespace millrace::transforms {

class StageRunner;

class PictureMixer {
 public:
  PictureMixer();
  ~PictureMixer();

  // The result stays until the next call.
  base::ImageView mixed(const MixStep& mix, base::ImageView picture);

 private:
  base::ImageView changed(const std::vector<AugmentStep>& steps, const MixStep& mix, base::ImageView picture);

  std::unique_ptr<StageRunner> runner_;
  SamplePlan plan_;
  PixelBuffer copy_, result_;
  std::vector<float> sums_;
};

}  // namespace millrace::transforms
