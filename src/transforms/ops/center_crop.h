// CenterCrop: torchvision's, and the five places of its FiveCrop.
#pragma once

#include "transforms/ops/operation.h"

namespace millrace::transforms {

template <>
inline constexpr std::array kNamesOf<CenterCrop::Place>{"center",      "top_left",     "top_right",
                                                        "bottom_left", "bottom_right", "middle"};

// Returns the box in the picture's coordinates. If the picture is smaller, the box reaches outside, and the
// crop is black there.
inline base::Rect center_crop_box(const CenterCrop& t, PictureSize in) {
  using Place = CenterCrop::Place;
  if (t.place != Place::center && (t.height > in.height || t.width > in.width))
    throw Error(ErrorKind::invalid_argument, "Requested crop size " + text({t.width, t.height}) +
                                                 " is bigger than input size " + text(in) +
                                                 "; use a smaller size, or resize first");
  if (t.place != Place::center && t.place != Place::middle) {
    const bool right = t.place == Place::top_right || t.place == Place::bottom_right,
               bottom = t.place == Place::bottom_left || t.place == Place::bottom_right;
    return {right ? in.width - t.width : 0, bottom ? in.height - t.height : 0, t.width, t.height};
  }
  const auto offset = [](int32_t have, int32_t want) {
    return want > have ? -((want - have) / 2) : round_half_even((have - want) / 2.0);
  };
  return {offset(in.width, t.width), offset(in.height, t.height), t.width, t.height};
}

template <>
struct Operation<CenterCrop> {
  static constexpr const char *name = "CenterCrop", *key = "center_crop";

  static void fields(auto& f, auto& t) { f("height", t.height)("width", t.width)("place?", t.place); }
  static void check(const CenterCrop& t, const Check& check) { check.positive_size(t.height, t.width); }
  static bool moves_tensors(const CenterCrop& t, const TensorSoFar& before) {
    return t.place != CenterCrop::Place::center || (!before.normalized && !before.noisy);
  }
  static std::optional<PictureSize> fixed_size(const CenterCrop& t, std::optional<PictureSize>) {
    return PictureSize{t.width, t.height};
  }
  static void plan(const CenterCrop& t, const OpParams&, PictureSize in, PictureSteps& to) {
    to.push_back(MoveStep{center_crop_box(t, in)});
  }
};

}  // namespace millrace::transforms
