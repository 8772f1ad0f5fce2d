// ExifTranspose: PIL.ImageOps.exif_transpose. Orientations 2 to 4 are flips, 5 to 8 flips of the turned
// picture.
#pragma once

#include "transforms/ops/operation.h"

namespace millrace::transforms {

// The first of a picture's steps.
inline void turn_upright(int orientation, PictureSize in, PictureSteps& to) {
  const int o = orientation;
  if (swaps_axes(o)) {
    to.push_back(TransposeStep{});
    in = {in.height, in.width};
  }
  const bool horizontal = o == 2 || o == 3 || o == 6 || o == 7,
             vertical = o == 3 || o == 4 || o == 7 || o == 8;
  if (horizontal || vertical) to.push_back(flip_of(in, horizontal, vertical));
}

template <>
struct Operation<ExifTranspose> {
  static constexpr const char *name = "ExifTranspose", *key = "exif_transpose";

  static void fields(auto&, auto&) {}
  static void check(const ExifTranspose&, const Check&) {}  // check_chain() has it first
  static std::optional<PictureSize> fixed_size(const ExifTranspose&, std::optional<PictureSize>) {
    return std::nullopt;
  }
  static void draw(const ExifTranspose&, Draw& draw) { draw.decided.orientation = draw.orientation; }
  static void plan(const ExifTranspose&, const OpParams& decided, PictureSize in, PictureSteps& to) {
    turn_upright(decided.orientation, in, to);
  }
  static void describe(auto& f, const OpParams& decided) { f("orientation", decided.orientation); }
};

}  // namespace millrace::transforms
