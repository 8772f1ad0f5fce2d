// Decisions of the transforms that frame, fit or tilt a picture, with the distributions of torchvision and
// timm. Pure, any thread.
#pragma once

#include "base/philox.h"
#include "transforms/params.h"
#include "transforms/step_geometry.h"

namespace millrace::transforms {

// The rectangle of a Frame of kind `anywhere` or `zoom_out`, whose probability has been looked at.
base::Rect draw_frame(const Frame& frame, PictureSize in, base::Philox& random);

// Decides size and interpolation.
void draw_resize(const DrawnResize& resize, PictureSize in, base::Philox& random, OpParams& decided);

// Throws Error(invalid_argument) where no map takes the corners that are drawn there, as in a picture of one
// column.
PerspectiveParams draw_perspective(const RandomPerspective& perspective, PictureSize in,
                                   base::Philox& random);

}  // namespace millrace::transforms
