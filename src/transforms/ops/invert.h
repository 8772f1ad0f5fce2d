// Invert: ImageOps.invert.
#pragma once

#include "transforms/ops/pixel_op.h"

namespace millrace::transforms {

struct Invert : EachByte<Invert> {
  static constexpr AugmentKind kind = AugmentKind::invert;
  static PixelAmount amount(double) { return {}; }
  MILLRACE_BOTH static int32_t byte(int32_t v, PixelAmount) { return 255 - v; }
};

}  // namespace millrace::transforms
