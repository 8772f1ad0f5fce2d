// Grayscale and RandomGrayscale: torchvision's, to three equal channels. Grey is saturation 0.
#pragma once

#include "transforms/ops/operation.h"

namespace millrace::transforms {

inline constexpr RecolorStep kToGrey{AugmentKind::saturation, 0};

template <>
struct Operation<Grayscale> {
  static constexpr const char *name = "Grayscale", *key = "grayscale";

  static void fields(auto&, auto&) {}
  static void check(const Grayscale&, const Check&) {}
  static void plan(const Grayscale&, const OpParams&, PictureSize, PictureSteps& to) {
    to.push_back(kToGrey);
  }
};

template <>
struct Operation<RandomGrayscale> {
  static constexpr const char *name = "RandomGrayscale", *key = "random_grayscale";

  static void fields(auto& f, auto& t) { f("p", t.p); }
  static void check(const RandomGrayscale& t, const Check& check) { check.probability(t.p); }
  static void draw(const RandomGrayscale& t, Draw& draw) { draw.applies(t.p); }
  static void plan(const RandomGrayscale&, const OpParams& decided, PictureSize, PictureSteps& to) {
    if (decided.applied) to.push_back(kToGrey);
  }
  static void describe(auto& f, const OpParams& decided) { f("applied", decided.applied); }
};

}  // namespace millrace::transforms
