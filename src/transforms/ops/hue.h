// Hue: torchvision's adjust_hue of Pillow pictures. The value is in turns of the colour circle, -0.5 to 0.5.
#pragma once

#include "transforms/color_kernels.h"
#include "transforms/ops/pixel_op.h"

namespace millrace::transforms {

struct Hue {
  static constexpr AugmentKind kind = AugmentKind::hue;
  // torchvision adds int(turns * 255) modulo 256.
  static PixelAmount amount(double turns) { return {0, static_cast<uint8_t>(static_cast<int>(turns * 255))}; }
  MILLRACE_BOTH static Rgb8 pixel(Rgb8 p, PixelAmount amount) { return turned8(p, amount.level); }
  static void row(const uint8_t* in, int32_t width, PixelAmount amount, uint8_t* out) {
    shift_hue(in, width, static_cast<uint8_t>(amount.level), out);
  }
};

}  // namespace millrace::transforms
