// SolarizeAdd: timm's solarize_add. The value is added to bytes below 128, up to 255.
#pragma once

#include "transforms/ops/pixel_op.h"

namespace millrace::transforms {

struct SolarizeAdd : EachByte<SolarizeAdd> {
  static constexpr AugmentKind kind = AugmentKind::solarize_add;
  static PixelAmount amount(double more) { return {0, static_cast<int32_t>(more)}; }
  MILLRACE_BOTH static int32_t byte(int32_t v, PixelAmount amount) {
    return v < 128 ? clamped8(v + amount.level) : v;
  }
};

}  // namespace millrace::transforms
