// Solarize: ImageOps.solarize. Bytes from the value on are inverted.
// SolarizeAdd: timm's solarize_add. The value is added to bytes below 128, up to 255.
#pragma once

#include <cmath>

#include "transforms/ops/pixel_op.h"

namespace millrace::transforms {

struct Solarize : EachByte<Solarize> {
  static constexpr AugmentKind kind = AugmentKind::solarize;
  // The first byte that is inverted: 0 to 256.
  static PixelAmount amount(double threshold) {
    return {0, static_cast<int32_t>(std::fmin(std::fmax(std::ceil(threshold), 0.0), 256.0))};
  }
  MILLRACE_BOTH static int32_t byte(int32_t v, PixelAmount amount) { return v < amount.level ? v : 255 - v; }
};

struct SolarizeAdd : EachByte<SolarizeAdd> {
  static constexpr AugmentKind kind = AugmentKind::solarize_add;
  static PixelAmount amount(double more) { return {0, static_cast<int32_t>(more)}; }
  MILLRACE_BOTH static int32_t byte(int32_t v, PixelAmount amount) {
    return v < 128 ? clamped8(v + amount.level) : v;
  }
};

}  // namespace millrace::transforms
