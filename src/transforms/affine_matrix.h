// The matrices of rotations, affine maps and perspectives, as torchvision and Pillow compute them; the part
// of a picture that a map looks at. Pure, any thread.
#pragma once

#include <array>
#include <optional>

#include "transforms/index_list.h"
#include "transforms/params.h"
#include "transforms/picture_size.h"

namespace millrace::transforms {

using Center = std::optional<std::array<double, 2>>;  // (x, y) in pixels; missing: the middle of the picture

// PIL.Image.rotate(angle), its rounding to 15 decimals included.
InverseAffine rotation_inverse(double angle, const Center& center, PictureSize size);

// torchvision's v2.functional.affine; v1 differs from it in the last bits of f64.
InverseAffine affine_inverse(const AffineParams& affine, const Center& center, PictureSize size);

// What torchvision's perspective() gives Pillow, floats, where the corners of a picture of `size` go to
// `corners`. The quotients of whole numbers that the coefficients are, within a few bits of f64, and then
// rounded. torch's least squares have errors of about 1e-16: that much is where 0 is meant, and a float
// between two others may be the other one. Where three corners lie on a line, all of the picture becomes the
// fourth one. Throws Error(invalid_argument) where the equations have no solution.
Homography perspective_inverse(const std::array<std::array<int32_t, 2>, 4>& corners, PictureSize size);

// The inputs along both axes that any output in the rectangle may look at, two more each side for cubic
// filters and one for the rounding of fixed point numbers.
struct MapWindow {
  Window x, y;
};
MapWindow mapped_window(const Homography& inverse, Window out_x, Window out_y, PictureSize in);

}  // namespace millrace::transforms
