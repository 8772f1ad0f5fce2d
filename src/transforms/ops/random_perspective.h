// RandomPerspective: torchvision's.
#pragma once

#include "transforms/affine_matrix.h"
#include "transforms/ops/operation.h"

namespace millrace::transforms {

template <>
struct Operation<RandomPerspective> {
  static constexpr const char *name = "RandomPerspective", *key = "random_perspective";

  static void fields(auto& f, auto& t) {
    f("distortion_scale", t.distortion_scale)("p", t.p)("interpolation", t.interpolation)("fill", t.fill);
  }
  static void check(const RandomPerspective& t, const Check& check) {
    check.require(t.distortion_scale >= 0 && t.distortion_scale <= 1,
                  "Argument distortion_scale value should be between 0 and 1");
    check.probability(t.p);
    check.map(t.interpolation);
  }
  // Throws Error(invalid_argument) if no map moves the corners to the drawn ones, as in a picture of one
  // column.
  static void draw(const RandomPerspective& t, Draw& draw) {
    if (!draw.applies(t.p)) return;
    const PictureSize in = draw.in;
    const auto reach = [&](int32_t side) {
      return static_cast<int32_t>(t.distortion_scale * (side / 2)) + 1;
    };
    const int32_t reach_x = reach(in.width), reach_y = reach(in.height);
    PerspectiveParams& made = draw.decided.perspective;
    for (size_t corner = 0; corner < made.corners.size(); ++corner) {
      const int32_t from_x = corner == 1 || corner == 2 ? in.width - reach_x : 0,
                    from_y = corner >= 2 ? in.height - reach_y : 0;
      made.corners[corner][0] = static_cast<int32_t>(draw.random.integer(from_x, from_x + reach_x));
      made.corners[corner][1] = static_cast<int32_t>(draw.random.integer(from_y, from_y + reach_y));
    }
    made.inverse = perspective_inverse(made.corners, in);
  }
  static bool fits(const RandomPerspective&, const OpParams& decided, PictureSize) {
    return computable(decided.perspective.inverse);
  }
  static void plan(const RandomPerspective& t, const OpParams& decided, PictureSize, PictureSteps& to) {
    if (decided.applied) to.push_back(PerspectiveStep{decided.perspective.inverse, t.interpolation, t.fill});
  }
  static void describe(auto& f, const OpParams& decided) {
    f("applied", decided.applied);
    if (!decided.applied) return;
    f("corners", decided.perspective.corners)("coefficients", decided.perspective.inverse);
  }
};

}  // namespace millrace::transforms
