// HorizontalFlip and VerticalFlip: torchvision's RandomHorizontalFlip and RandomVerticalFlip.
#pragma once

#include "transforms/ops/operation.h"

namespace millrace::transforms {

template <class Flip, bool kHorizontal>
struct FlipOperation {
  static void fields(auto& f, auto& t) { f("p", t.p); }
  static void check(const Flip& t, const Check& check) { check.probability(t.p); }
  static bool moves_tensors(const Flip&, const TensorSoFar&) { return true; }
  static void draw(const Flip& t, Draw& draw) { draw.applies(t.p); }
  static void plan(const Flip&, const OpParams& decided, PictureSize in, PictureSteps& to) {
    if (decided.applied) to.push_back(flip_of(in, kHorizontal, !kHorizontal));
  }
  static void describe(auto& f, const OpParams& decided) { f("flip", decided.applied); }
};

template <>
struct Operation<HorizontalFlip> : FlipOperation<HorizontalFlip, true> {
  static constexpr const char *name = "RandomHorizontalFlip", *key = "horizontal_flip";
};
template <>
struct Operation<VerticalFlip> : FlipOperation<VerticalFlip, false> {
  static constexpr const char *name = "RandomVerticalFlip", *key = "vertical_flip";
};

}  // namespace millrace::transforms
