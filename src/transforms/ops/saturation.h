// Saturation: ImageEnhance.Color. The value is the factor: 0 is grey, 1 no change.
#pragma once

#include "transforms/color_kernels.h"
#include "transforms/ops/pixel_op.h"

namespace millrace::transforms {

struct Saturation {
  static constexpr AugmentKind kind = AugmentKind::saturation;
  static PixelAmount amount(double factor) { return {static_cast<float>(factor), 0}; }
  MILLRACE_BOTH static Rgb8 pixel(Rgb8 p, PixelAmount amount) { return blended8(grey8(p), p, amount.factor); }
  static void row(const uint8_t* in, int32_t width, PixelAmount amount, uint8_t* out) {
    blend_with_grey(in, width, amount.factor, out);
  }
};

}  // namespace millrace::transforms
