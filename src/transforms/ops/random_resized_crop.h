// RandomResizedCrop: torchvision's.
#pragma once

#include <algorithm>
#include <cmath>

#include "transforms/ops/operation.h"

namespace millrace::transforms {

template <>
struct Operation<RandomResizedCrop> {
  static constexpr const char *name = "RandomResizedCrop", *key = "random_resized_crop";

  static void fields(auto& f, auto& t) {
    f("height", t.height)("width", t.width)("scale", t.scale)("ratio", t.ratio);
    f("interpolation", t.interpolation)("of_tensor?", t.of_tensor)("interpolations?", t.interpolations);
  }
  static void check(const RandomResizedCrop& t, const Check& check) {
    check.positive_size(t.height, t.width);
    check.require(std::isfinite(t.scale.max) && t.scale.min >= 0 && t.scale.min <= t.scale.max,
                  "scale must be (min, max) with 0 <= min <= max, as fractions of the picture's area");
    check.require(std::isfinite(t.ratio.max) && t.ratio.min > 0 && t.ratio.min <= t.ratio.max,
                  "ratio must be (min, max) with 0 < min <= max, as width / height");
    check.resize(t.of_tensor, t.interpolation);
    for (const Interpolation interpolation : t.interpolations) check.resize(t.of_tensor, interpolation);
  }
  static std::optional<PictureSize> fixed_size(const RandomResizedCrop& t, std::optional<PictureSize>) {
    return PictureSize{t.width, t.height};
  }

  static void draw(const RandomResizedCrop& t, Draw& draw) {
    draw.decided.box = box(t, draw.in, draw.random);
    draw.decided.interpolation = t.interpolation;
    if (!t.interpolations.empty())
      draw.decided.interpolation = t.interpolations[static_cast<size_t>(
          draw.random.integer(0, static_cast<int64_t>(t.interpolations.size())))];
  }
  static bool fits(const RandomResizedCrop&, const OpParams& decided, PictureSize in) {
    return inside(decided.box, in);
  }
  static void plan(const RandomResizedCrop& t, const OpParams& decided, PictureSize, PictureSteps& to) {
    to.push_back(MoveStep{decided.box});
    to.push_back(ResizeStep{t.width, t.height, decided.interpolation, t.of_tensor});
  }
  static void describe(auto& f, const OpParams& decided) {
    f.box(decided.box)("interpolation", decided.interpolation);
  }

 private:
  // torchvision's RandomResizedCrop.get_params.
  static base::Rect box(const RandomResizedCrop& t, PictureSize in, base::Philox& random) {
    const double area = static_cast<double>(in.width) * in.height;
    const double log_min = std::log(t.ratio.min), log_max = std::log(t.ratio.max);
    for (int attempt = 0; attempt < 10; ++attempt) {
      const double target = area * random.uniform(t.scale.min, t.scale.max);
      const double ratio = std::exp(random.uniform(log_min, log_max));
      const double w = std::nearbyint(std::sqrt(target * ratio)),
                   h = std::nearbyint(std::sqrt(target / ratio));
      if (w < 1 || w > in.width || h < 1 || h > in.height) continue;
      base::Rect box{0, 0, static_cast<int32_t>(w), static_cast<int32_t>(h)};
      box.top = static_cast<int32_t>(random.integer(0, in.height - box.height + 1));
      box.left = static_cast<int32_t>(random.integer(0, in.width - box.width + 1));
      return box;
    }
    // No attempt fitted: take the largest central box of an allowed ratio. Its short side is at least one
    // pixel, where torchvision would fail.
    base::Rect box{0, 0, in.width, in.height};
    const double ratio = static_cast<double>(in.width) / in.height;
    if (ratio < t.ratio.min)
      box.height = std::clamp(round_half_even(in.width / t.ratio.min), 1, in.height);
    else if (ratio > t.ratio.max)
      box.width = std::clamp(round_half_even(in.height * t.ratio.max), 1, in.width);
    box.top = (in.height - box.height) / 2;
    box.left = (in.width - box.width) / 2;
    return box;
  }
};

}  // namespace millrace::transforms
