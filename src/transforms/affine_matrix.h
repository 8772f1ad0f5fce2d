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

// Returns the coefficients that torchvision's perspective() gives Pillow, as floats, for a map that moves the
// corners of a picture of `size` to `corners`. Each coefficient is a quotient of whole numbers, computed to
// within a few bits of f64 and then rounded to f32. torch's least squares have errors of about 1e-16, so
// torch may have such a number instead of 0, or the other float if the quotient lies between two floats. If
// three corners lie on a line, all of the picture becomes the fourth corner. Throws Error(invalid_argument)
// if the equations have no solution.
Homography perspective_inverse(const std::array<std::array<int32_t, 2>, 4>& corners, PictureSize size);

// Returns the inputs along both axes that any output in the rectangle may read: two more on each side for
// cubic filters and one for the rounding of fixed-point numbers.
struct MapWindow {
  Window x, y;
};
MapWindow mapped_window(const Homography& inverse, Window out_x, Window out_y, PictureSize in);

}  // namespace millrace::transforms
