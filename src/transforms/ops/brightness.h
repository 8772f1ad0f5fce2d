// Brightness: ImageEnhance.Brightness. The value is the factor: 0 is black, 1 no change.
#pragma once

#include "transforms/color_kernels.h"
#include "transforms/ops/pixel_op.h"

namespace millrace::transforms {

struct Brightness : EachByte<Brightness> {
  static constexpr AugmentKind kind = AugmentKind::brightness;
  static PixelAmount amount(double factor) { return {static_cast<float>(factor), 0}; }
  MILLRACE_BOTH static int32_t byte(int32_t v, PixelAmount amount) { return blended8(0, v, amount.factor); }
  static void row(const uint8_t* in, int32_t width, PixelAmount amount, uint8_t* out) {
    blend_with_level(in, width, 0, amount.factor, out);
  }
};

}  // namespace millrace::transforms
