// PhotometricDistort: torchvision's RandomPhotometricDistort.
#pragma once

#include <utility>

#include "transforms/ops/color_jitter.h"

namespace millrace::transforms {

template <>
struct Operation<PhotometricDistort> {
  static constexpr const char *name = "RandomPhotometricDistort", *key = "photometric_distort";

  static void fields(auto& f, auto& t) {
    f("brightness", t.brightness)("contrast", t.contrast)("saturation", t.saturation)("hue", t.hue)("p", t.p);
  }
  static void check(const PhotometricDistort& t, const Check& check) {
    check.range("brightness", t.brightness, 0, Check::kAny);
    check.range("contrast", t.contrast, 0, Check::kAny);
    check.range("saturation", t.saturation, 0, Check::kAny);
    check.range("hue", t.hue, -0.5, 0.5);
    check.probability(t.p);
  }

  // A factor for each property that is drawn, in torchvision's order.
  static void draw(const PhotometricDistort& t, Draw& draw) {
    base::Philox& random = draw.random;
    ColorJitterParams& color = draw.decided.color;
    const auto happens = [&] { return random.uniform() < t.p; };
    const auto factor = [&](ColorOp op, const Range& range) {
      const bool wanted = happens();
      if (wanted) color.amount(op) = draw.uniform(range);
      return wanted;
    };
    const bool brightness = factor(ColorOp::brightness, t.brightness);
    const bool contrast = factor(ColorOp::contrast, t.contrast);
    const bool saturation = factor(ColorOp::saturation, t.saturation);
    const bool hue = factor(ColorOp::hue, t.hue);
    const bool contrast_first = random.uniform() < 0.5;
    size_t count = 0;
    const auto add = [&](ColorOp op, bool wanted) {
      if (wanted) color.order[count++] = op;
    };
    add(ColorOp::brightness, brightness);
    add(ColorOp::contrast, contrast && contrast_first);
    add(ColorOp::saturation, saturation);
    add(ColorOp::hue, hue);
    add(ColorOp::contrast, contrast && !contrast_first);
    draw.decided.applied = happens();  // of the channels
    if (!draw.decided.applied) return;
    std::array<uint8_t, 3> from{0, 1, 2};
    for (int i = 2; i > 0; --i) std::swap(from[i], from[random.integer(0, i + 1)]);
    draw.decided.permutation = static_cast<uint8_t>(from[0] | from[1] << 2 | from[2] << 4);
  }
  static bool fits(const PhotometricDistort&, const OpParams& decided, PictureSize) {
    return computable(decided.color);
  }
  static void plan(const PhotometricDistort&, const OpParams& decided, PictureSize, PictureSteps& to) {
    add_colors(decided.color, to);
    if (decided.permutation != 0)
      to.push_back(RecolorStep{AugmentKind::permute, static_cast<double>(decided.permutation)});
  }
  static void describe(auto& f, const OpParams& decided) {
    f.colors(decided.color);
    const int from = decided.permutation;
    f("permutation",
      decided.applied ? std::optional(std::tuple(from & 3, from >> 2 & 3, from >> 4 & 3)) : std::nullopt);
  }
};

}  // namespace millrace::transforms
