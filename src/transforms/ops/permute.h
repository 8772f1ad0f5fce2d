// Permute: the channels in another order. The value says where each comes from, two bits each.
#pragma once

#include "transforms/ops/pixel_op.h"

namespace millrace::transforms {

struct Permute {
  static constexpr AugmentKind kind = AugmentKind::permute;
  static PixelAmount amount(double sources) { return {0, static_cast<int32_t>(sources)}; }
  MILLRACE_BOTH static Rgb8 pixel(Rgb8 p, PixelAmount amount) {
    const auto from = [p](int32_t channel) { return channel == 0 ? p.r : channel == 1 ? p.g : p.b; };
    return {from(amount.level & 3), from(amount.level >> 2 & 3), from(amount.level >> 4 & 3)};
  }
};

}  // namespace millrace::transforms
