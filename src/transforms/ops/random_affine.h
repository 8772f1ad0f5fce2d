// RandomAffine: torchvision's; turns clockwise.
#pragma once

#include "transforms/affine_matrix.h"
#include "transforms/ops/operation.h"

namespace millrace::transforms {

template <>
struct Operation<RandomAffine> {
  static constexpr const char *name = "RandomAffine", *key = "random_affine";

  static void fields(auto& f, auto& t) {
    f("degrees", t.degrees)("translate", t.translate)("scale", t.scale)("shear", t.shear_x, t.shear_y);
    f("interpolation", t.interpolation)("center", t.center)("fill", t.fill);
  }
  static void check(const RandomAffine& t, const Check& check) {
    check.range("degrees", t.degrees, -Check::kAny, Check::kAny);
    if (t.translate)
      for (const double share : *t.translate)
        check.require(share >= 0 && share <= 1, "translation values should be between 0 and 1");
    if (t.scale) {
      check.range("scale", *t.scale, 0, Check::kAny);
      check.require(t.scale->min > 0, "scale values should be positive");
    }
    check.range("shear along x", t.shear_x, -Check::kAny, Check::kAny);
    check.range("shear along y", t.shear_y, -Check::kAny, Check::kAny);
    check.center(t.center);
    check.map(t.interpolation);
  }
  static void draw(const RandomAffine& t, Draw& draw) {
    AffineParams& affine = draw.decided.affine;
    affine.angle = draw.uniform(t.degrees);
    if (t.translate) {
      const double most_x = (*t.translate)[0] * draw.in.width, most_y = (*t.translate)[1] * draw.in.height;
      affine.translate_x = round_half_even(draw.random.uniform(-most_x, most_x));
      affine.translate_y = round_half_even(draw.random.uniform(-most_y, most_y));
    }
    if (t.scale) affine.scale = draw.uniform(*t.scale);
    affine.shear_x = draw.uniform(t.shear_x);
    affine.shear_y = draw.uniform(t.shear_y);
    draw.decided.inverse = affine_inverse(affine, t.center, draw.in);
  }
  static bool fits(const RandomAffine&, const OpParams& decided, PictureSize) {
    return computable(decided.inverse);
  }
  static void plan(const RandomAffine& t, const OpParams& decided, PictureSize, PictureSteps& to) {
    add_map(decided.inverse, t.interpolation, t.fill, to);
  }
  static void describe(auto& f, const OpParams& decided) {
    const AffineParams& affine = decided.affine;
    f("angle", affine.angle)("translate", std::tuple(affine.translate_x, affine.translate_y));
    f("scale", affine.scale)("shear", std::tuple(affine.shear_x, affine.shear_y));
    f("inverse", std::tuple_cat(decided.inverse));
  }
};

}  // namespace millrace::transforms
