// RandomRotation: torchvision's, of pictures that keep their size.
#pragma once

#include "transforms/affine_matrix.h"
#include "transforms/ops/operation.h"

namespace millrace::transforms {

template <>
struct Operation<RandomRotation> {
  static constexpr const char *name = "RandomRotation", *key = "random_rotation";

  static void fields(auto& f, auto& t) {
    f("degrees", t.degrees)("interpolation", t.interpolation)("center", t.center)("fill", t.fill);
  }
  static void check(const RandomRotation& t, const Check& check) {
    check.range("degrees", t.degrees, -Check::kAny, Check::kAny);
    check.center(t.center);
    check.map(t.interpolation);
  }
  static void draw(const RandomRotation& t, Draw& draw) {
    draw.decided.affine.angle = draw.uniform(t.degrees);
    draw.decided.inverse = rotation_inverse(draw.decided.affine.angle, t.center, draw.in);
  }
  static bool fits(const RandomRotation&, const OpParams& decided, PictureSize) {
    return computable(decided.inverse);
  }
  static void plan(const RandomRotation& t, const OpParams& decided, PictureSize, PictureSteps& to) {
    add_map(decided.inverse, t.interpolation, t.fill, to);
  }
  static void describe(auto& f, const OpParams& decided) {
    f("angle", decided.affine.angle)("inverse", std::tuple_cat(decided.inverse));
  }
};

}  // namespace millrace::transforms
