// DrawnResize: torchvision's RandomShortestSize, ScaleJitter and RandomResize, timm's ResizeKeepRatio.
#pragma once

#include <algorithm>
#include <cmath>

#include "transforms/ops/float_draws.h"
#include "transforms/ops/resize.h"

namespace millrace::transforms {

template <>
inline constexpr std::array kNamesOf<DrawnResize::Kind>{"keep_ratio", "shortest", "jitter", "between"};

// `scale`: a factor of both sides, `aspect`: of width / height, `size`: the shorter side.
struct DrawnSize {
  double scale = 1, aspect = 1;
  int32_t size = 0;
};

// Throws Error(invalid_argument) if a side has no pixel.
inline PictureSize resized_size(const DrawnResize& t, PictureSize in, const DrawnSize& drawn) {
  const auto checked = [in](double width, double height) {
    const auto whole = [](double side) { return static_cast<int64_t>(std::clamp(side, -1.0, 1e18)); };
    return PictureSize{checked_side(whole(width), in), checked_side(whole(height), in)};
  };
  switch (t.kind) {
    case DrawnResize::Kind::shortest: {
      double ratio = static_cast<double>(drawn.size) / std::min(in.width, in.height);
      if (t.max_size > 0)
        ratio = std::min(ratio, static_cast<double>(t.max_size) / std::max(in.width, in.height));
      return checked(in.width * ratio, in.height * ratio);
    }
    case DrawnResize::Kind::jitter: {  // in floats where torchvision has tensors of them
      const double fit =
          std::min(static_cast<double>(t.width) / in.height, static_cast<double>(t.height) / in.width);
      const float ratio = static_cast<float>(fit) * static_cast<float>(drawn.scale);
      return checked(static_cast<float>(in.width) * ratio, static_cast<float>(in.height) * ratio);
    }
    case DrawnResize::Kind::between: return resized_size(Resize{.height = drawn.size}, in);
    case DrawnResize::Kind::keep_ratio: break;
  }
  const double ratio_x = static_cast<double>(in.width) / t.width,
               ratio_y = static_cast<double>(in.height) / t.height;
  const double ratio =
      std::max(ratio_y, ratio_x) * t.longest + std::min(ratio_y, ratio_x) * (1.0 - t.longest);
  const double aspect = std::sqrt(drawn.aspect);
  return checked(std::nearbyint(in.width * (drawn.scale * aspect) / ratio),
                 std::nearbyint(in.height * (drawn.scale / aspect) / ratio));
}

template <>
struct Operation<DrawnResize> {
  static constexpr const char* key = "drawn_resize";
  static const char* name_of(const DrawnResize& t) {
    constexpr std::array kNames{"ResizeKeepRatio", "RandomShortestSize", "ScaleJitter", "RandomResize"};
    return kNames[static_cast<size_t>(t.kind)];
  }

  static void fields(auto& f, auto& t) {
    f("kind", t.kind)("height?", t.height)("width?", t.width)("longest?", t.longest)("scale?", t.scale);
    f("scale_p?", t.scale_p)("scale_is_area?", t.scale_is_area)("aspect?", t.aspect);
    f("aspect_p?", t.aspect_p)("sizes?", t.sizes)("max_size?", t.max_size);
    f("interpolations", t.interpolations)("of_tensor?", t.of_tensor);
  }
  static void check(const DrawnResize& t, const Check& check) {
    const bool fits = t.kind == DrawnResize::Kind::keep_ratio || t.kind == DrawnResize::Kind::jitter;
    if (fits) check.positive_size(t.height, t.width);
    check.require(std::abs(t.longest) <= Check::kAny, "longest must be finite");
    check.probability(t.scale_p);
    check.probability(t.aspect_p);
    check.range("scale_range", t.scale, 0, Check::kAny);
    check.range("random_aspect_range", t.aspect, 0, Check::kAny);
    check.require(t.scale.min > 0 && t.aspect.min > 0, "factors must be above 0");
    check.require(fits || !t.sizes.empty(), "min_size must have one size or more");
    for (const int32_t size : t.sizes) check.require(size > 0, "sizes must be > 0");
    check.require(t.kind != DrawnResize::Kind::between || (t.sizes.size() == 2 && t.sizes[0] < t.sizes[1]),
                  "min_size must be below max_size");
    check.require(t.max_size >= 0, "max_size must be > 0");
    check.require(!t.interpolations.empty(), "needs an interpolation");
    for (const Interpolation interpolation : t.interpolations) check.resize(t.of_tensor, interpolation);
  }
  static std::optional<PictureSize> fixed_size(const DrawnResize&, std::optional<PictureSize>) {
    return std::nullopt;
  }

  static void draw(const DrawnResize& t, Draw& draw) {
    DrawnSize drawn;
    base::Philox& random = draw.random;
    switch (t.kind) {
      case DrawnResize::Kind::shortest: drawn.size = draw.one_of(t.sizes); break;
      case DrawnResize::Kind::between:
        drawn.size = static_cast<int32_t>(random.integer(t.sizes[0], t.sizes[1]));
        break;
      case DrawnResize::Kind::jitter: drawn.scale = float_between(t.scale, random); break;
      case DrawnResize::Kind::keep_ratio:
        if (t.scale_p > 0 && random.uniform() < t.scale_p) {
          drawn.scale = draw.uniform(t.scale);
          if (t.scale_is_area) drawn.scale = 1 / std::sqrt(drawn.scale);
        }
        if (t.aspect_p > 0 && random.uniform() < t.aspect_p)
          drawn.aspect = std::exp(random.uniform(std::log(t.aspect.min), std::log(t.aspect.max)));
        break;
    }
    const PictureSize size = resized_size(t, draw.in, drawn);
    draw.decided.box = {0, 0, size.width, size.height};
    draw.decided.interpolation = draw.one_of(t.interpolations);
  }
  static bool fits(const DrawnResize&, const OpParams& decided, PictureSize) {
    return decided.box.width > 0 && decided.box.height > 0;
  }
  static void plan(const DrawnResize& t, const OpParams& decided, PictureSize, PictureSteps& to) {
    to.push_back(ResizeStep{decided.box.width, decided.box.height, decided.interpolation, t.of_tensor});
  }
  static void describe(auto& f, const OpParams& decided) {
    f("height", decided.box.height)("width", decided.box.width)("interpolation", decided.interpolation);
  }
};

}  // namespace millrace::transforms
