// The matrices of rotations and affine maps, as torchvision and Pillow compute them. Pure, any thread.
#pragma once

#include <array>
#include <optional>

#include "transforms/params.h"
#include "transforms/step_geometry.h"

namespace millrace::transforms {

using Center = std::optional<std::array<double, 2>>;  // (x, y) in pixels; missing: the middle of the picture

// PIL.Image.rotate(angle), its rounding to 15 decimals included.
InverseAffine rotation_inverse(double angle, const Center& center, PictureSize size);

// torchvision's v2.functional.affine; v1 differs from it in the last bits of f64.
InverseAffine affine_inverse(const AffineParams& affine, const Center& center, PictureSize size);

}  // namespace millrace::transforms
