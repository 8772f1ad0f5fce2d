// Posterize: ImageOps.posterize. The value is the number of bits kept of each byte, 0 to 8.
#pragma once

#include "transforms/ops/pixel_op.h"

namespace millrace::transforms {

struct Posterize : EachByte<Posterize> {
  static constexpr AugmentKind kind = AugmentKind::posterize;
  static PixelAmount amount(double bits) { return {0, 0xFF00 >> static_cast<int>(bits) & 0xFF}; }
  MILLRACE_BOTH static int32_t byte(int32_t v, PixelAmount amount) { return v & amount.level; }
};

}  // namespace millrace::transforms
