// RandomErasing: torchvision's, and timm's, which may erase several rectangles; by erase.h.
#pragma once

#include <cmath>

#include "transforms/ops/gaussian_noise.h"
#include "transforms/ops/operation.h"

namespace millrace::transforms {

template <>
struct Operation<RandomErasing> {
  static constexpr const char *name = "RandomErasing", *key = "random_erasing";

  static void fields(auto& f, auto& t) {
    f("p", t.p)("scale", t.scale)("ratio", t.ratio)("value", t.value)("per_channel?", t.per_channel);
    f("count?", t.count_min, t.count_max);
  }
  static void check(const RandomErasing& t, const Check& check) {
    check.probability(t.p);
    check.range("scale", t.scale, 0, 1);
    check.range("ratio", t.ratio, 0, Check::kAny);
    check.require(t.ratio.min > 0, "ratio values should be positive, as height / width");
    check.require(t.count_min >= 0 && t.count_min <= t.count_max && t.count_max <= 1024,
                  "counts must be (min, max) with 0 <= min <= max <= 1024");
    check.require(
        t.value.empty() || t.value.size() == 1 || t.value.size() == 3,
        "If value is a sequence, it should have either a single value or 3 (number of input channels)");
  }
  static void draw(const RandomErasing& t, Draw& draw) {
    base::Philox& random = draw.random;
    if (random.uniform() >= t.p) return;
    int64_t count = t.count_min;
    if (t.count_max > t.count_min) count = random.integer(t.count_min, int64_t{t.count_max} + 1);
    for (int64_t i = 0; i < count; ++i) rectangle(t, count, draw);
    if (t.value.empty()) draw.decided.noise = draw_noise_key(random);
  }
  static void describe(auto& f, const OpParams& decided) {
    f.box(decided.box)("applied", decided.applied);
    if (!decided.more_boxes.empty()) f("more", decided.more_boxes);
  }

 private:
  // Draws up to ten rectangles and erases the first one that is smaller than the picture along both axes.
  static void rectangle(const RandomErasing& t, int64_t count, Draw& draw) {
    base::Philox& random = draw.random;
    const PictureSize in = draw.in;
    for (int attempt = 0; attempt < 10; ++attempt) {
      const double whole = static_cast<double>(in.width) * in.height;
      const double area = whole * draw.uniform(t.scale) / static_cast<double>(count);
      const double ratio = std::exp(random.uniform(std::log(t.ratio.min), std::log(t.ratio.max)));
      const double h = std::nearbyint(std::sqrt(area * ratio)), w = std::nearbyint(std::sqrt(area / ratio));
      if (h >= in.height || w >= in.width) continue;
      const auto height = static_cast<int32_t>(h), width = static_cast<int32_t>(w);
      const auto top = static_cast<int32_t>(random.integer(0, in.height - height + 1));
      const auto left = static_cast<int32_t>(random.integer(0, in.width - width + 1));
      const base::Rect box{left, top, width, height};
      if (draw.decided.applied)
        draw.decided.more_boxes.push_back(box);
      else
        draw.decided.box = box;
      draw.decided.applied = true;
      return;
    }
  }
};

}  // namespace millrace::transforms
