// Resize: torchvision's, of pictures and of tensors; to two sides, to the shorter one or to the longer one.
#pragma once

#include <algorithm>
#include <string>

#include "transforms/ops/operation.h"

namespace millrace::transforms {

inline PictureSize resized_size(const Resize& t, PictureSize in) {
  if (t.width > 0) return {t.width, t.height};
  // Whole numbers give the same as Python's int(size * long / short): such quotients are too small to round
  // up to the next whole number.
  const int64_t shorter = std::min(in.width, in.height), longer = std::max(in.width, in.height);
  int64_t new_short = t.height, new_long = new_short * longer / shorter;
  if (t.height == 0) {
    new_short = t.max_size * shorter / longer;
    new_long = t.max_size;
  }
  if (t.height > 0 && t.max_size > 0 && new_long > t.max_size) {
    new_short = int64_t{t.max_size} * new_short / new_long;
    new_long = t.max_size;
  }
  const int32_t s = checked_side(new_short, in), l = checked_side(new_long, in);
  return in.width <= in.height ? PictureSize{s, l} : PictureSize{l, s};
}

template <>
struct Operation<Resize> {
  static constexpr const char *name = "Resize", *key = "resize";

  static void fields(auto& f, auto& t) {
    f("height", t.height)("width", t.width)("max_size", t.max_size)("interpolation", t.interpolation);
    f("of_tensor?", t.of_tensor);
  }
  static void check(const Resize& t, const Check& check) {
    check.require(t.height > 0 ? t.width >= 0 : t.height == 0 && t.width == 0 && t.max_size > 0,
                  "height and width must be > 0");
    check.require(t.max_size == 0 || t.width == 0,
                  "max_size should only be passed if size specifies the length of the smaller edge; give one "
                  "size or no max_size");
    check.require(t.max_size == 0 || t.max_size > t.height,
                  "max_size = " + std::to_string(t.max_size) +
                      " must be strictly greater than the requested size for the smaller edge size = " +
                      std::to_string(t.height));
    check.resize(t.of_tensor, t.interpolation);
  }
  static std::optional<PictureSize> fixed_size(const Resize& t, std::optional<PictureSize> in) {
    if (t.width > 0) return PictureSize{t.width, t.height};
    return in ? std::optional(resized_size(t, *in)) : std::nullopt;
  }
  static void plan(const Resize& t, const OpParams&, PictureSize in, PictureSteps& to) {
    const PictureSize size = resized_size(t, in);
    to.push_back(ResizeStep{size.width, size.height, t.interpolation, t.of_tensor});
  }
};

}  // namespace millrace::transforms
