// PixelOps: the list of the operations that compute each pixel from that pixel alone.
#pragma once

#include "transforms/ops/brightness.h"
#include "transforms/ops/hue.h"
#include "transforms/ops/invert.h"
#include "transforms/ops/permute.h"
#include "transforms/ops/posterize.h"
#include "transforms/ops/saturation.h"
#include "transforms/ops/solarize.h"

namespace millrace::transforms {

template <class... Ops>
struct PixelOpList {
  static constexpr bool has(AugmentKind kind) { return ((kind == Ops::kind) || ...); }

  // Calls `use` with the operation of this kind, if it is in the list.
  template <class Use>
  MILLRACE_BOTH static void with(AugmentKind kind, Use&& use) {
    (void)((kind == Ops::kind ? (use(Ops{}), true) : false) || ...);
  }

  static PixelAmount amount(AugmentKind kind, double value) {
    PixelAmount amount;
    with(kind, [&](auto op) { amount = op.amount(value); });
    return amount;
  }
};

using PixelOps = PixelOpList<Brightness, Hue, Invert, Permute, Posterize, Saturation, Solarize, SolarizeAdd>;

}  // namespace millrace::transforms
