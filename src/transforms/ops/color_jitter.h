// ColorJitter: torchvision's, with Pillow's arithmetic of bytes.
#pragma once

#include <cmath>
#include <utility>

#include "transforms/ops/operation.h"

namespace millrace::transforms {

inline bool computable(const ColorJitterParams& c) {
  const auto factor = [](double v) { return v >= 0 && v <= Check::kAny; };
  return factor(c.brightness) && factor(c.contrast) && factor(c.saturation) && std::abs(c.hue) <= 0.5;
}

inline void add_colors(const ColorJitterParams& color, PictureSteps& to) {
  for (const ColorOp op : color.order) add_operation(color.step(op), {}, to);
}

template <>
struct Operation<ColorJitter> {
  static constexpr const char *name = "ColorJitter", *key = "color_jitter";

  static void fields(auto& f, auto& t) {
    f("brightness", t.brightness)("contrast", t.contrast)("saturation", t.saturation)("hue", t.hue)("p", t.p);
  }
  static void check(const ColorJitter& t, const Check& check) {
    if (t.brightness) check.range("brightness", *t.brightness, 0, Check::kAny);
    if (t.contrast) check.range("contrast", *t.contrast, 0, Check::kAny);
    if (t.saturation) check.range("saturation", *t.saturation, 0, Check::kAny);
    if (t.hue) check.range("hue", *t.hue, -0.5, 0.5);
    check.probability(t.p);
  }

  // Draws a factor for each property that has a range, and a random order of these properties: torchvision's
  // order of all four, with gaps closed.
  static void draw(const ColorJitter& t, Draw& draw) {
    if (!draw.applies(t.p)) return;
    ColorJitterParams& color = draw.decided.color;
    int count = 0;
    const auto factor = [&](ColorOp op, const std::optional<Range>& range) {
      if (!range) return;
      color.amount(op) = draw.uniform(*range);
      color.order[count++] = op;
    };
    factor(ColorOp::brightness, t.brightness);
    factor(ColorOp::contrast, t.contrast);
    factor(ColorOp::saturation, t.saturation);
    factor(ColorOp::hue, t.hue);
    for (int i = count - 1; i > 0; --i) std::swap(color.order[i], color.order[draw.random.integer(0, i + 1)]);
  }
  static bool fits(const ColorJitter&, const OpParams& decided, PictureSize) {
    return computable(decided.color);
  }
  static void plan(const ColorJitter&, const OpParams& decided, PictureSize, PictureSteps& to) {
    add_colors(decided.color, to);
  }
  static void describe(auto& f, const OpParams& decided) {
    f.colors(decided.color)("applied", decided.applied);
  }
};

}  // namespace millrace::transforms
