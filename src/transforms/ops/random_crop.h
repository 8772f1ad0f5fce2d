// RandomCrop: torchvision's, of the padded picture.
#pragma once

#include <algorithm>

#include "transforms/ops/operation.h"

namespace millrace::transforms {

inline Padding padding_of(const RandomCrop& t, PictureSize in) {
  Padding p{t.padding[0], t.padding[1], t.padding[2], t.padding[3]};
  if (!t.pad_if_needed) return p;
  const PictureSize full = padded(in, p);
  const int32_t more_x = std::max(0, t.width - full.width), more_y = std::max(0, t.height - full.height);
  return {p.left + more_x, p.top + more_y, p.right + more_x, p.bottom + more_y};
}

template <>
struct Operation<RandomCrop> {
  static constexpr const char *name = "RandomCrop", *key = "random_crop";

  static void fields(auto& f, auto& t) {
    f("height", t.height)("width", t.width)("padding", t.padding)("pad_if_needed", t.pad_if_needed);
    f("fill", t.fill)("padding_mode", t.padding_mode);
  }
  static void check(const RandomCrop& t, const Check& check) {
    check.positive_size(t.height, t.width);
    for (const int32_t side : t.padding)
      check.require(side >= 0, "padding must be >= 0; to cut borders off, use CenterCrop");
  }
  static bool moves_tensors(const RandomCrop& t, const TensorSoFar& before) {
    const bool pads = t.pad_if_needed || t.padding != std::array<int32_t, 4>{};
    return !pads || before.keeps_border(t.padding_mode, t.fill);
  }
  static std::optional<PictureSize> fixed_size(const RandomCrop& t, std::optional<PictureSize>) {
    return PictureSize{t.width, t.height};
  }
  // torchvision's RandomCrop.get_params.
  static void draw(const RandomCrop& t, Draw& draw) {
    const PictureSize full = padded(draw.in, padding_of(t, draw.in));
    if (full.height < t.height || full.width < t.width)
      throw Error(ErrorKind::invalid_argument, "Required crop size " + text({t.width, t.height}) +
                                                   " is larger than input image size " + text(full) +
                                                   "; use a smaller size, padding, or pad_if_needed");
    const auto place = [&](int32_t room) {
      return room > 0 ? static_cast<int32_t>(draw.random.integer(0, room + 1)) : 0;
    };
    base::Rect& box = draw.decided.box = {0, 0, t.width, t.height};
    box.top = place(full.height - t.height);
    box.left = place(full.width - t.width);
  }
  static bool fits(const RandomCrop& t, const OpParams& decided, PictureSize in) {
    return inside(decided.box, padded(in, padding_of(t, in))) && decided.box.width == t.width &&
           decided.box.height == t.height;
  }
  static void plan(const RandomCrop& t, const OpParams& decided, PictureSize in, PictureSteps& to) {
    const Padding p = padding_of(t, in);
    const base::Rect& box = decided.box;  // of the padded picture
    to.push_back(MoveStep{
        {box.left - p.left, box.top - p.top, box.width, box.height}, false, false, t.padding_mode, t.fill});
  }
  static void describe(auto& f, const OpParams& decided) { f.box(decided.box); }
};

}  // namespace millrace::transforms
