// blur_picture(): Pillow's ImageFilter.GaussianBlur, bit for bit: three box blurs along x, then three along
// y.
//
// A box of fractional width gives its two outermost pixels less weight (Gwosdek et al., "Theoretical
// foundations of Gaussian convolution by extended box filtering", SSVM 2011). Outside of the picture, its
// border pixels repeat. Weights are 24-bit fixed point, sums 32-bit, and each pass writes bytes. No state,
// any thread.
#pragma once

#include <array>

#include "base/geometry.h"
#include "transforms/box_blur_kernel.h"
#include "transforms/pixel_buffer.h"

namespace millrace::transforms {

inline constexpr int kBoxPasses = 3;  // along each axis

// Returns the box that approximates a Gaussian of this radius in kBoxPasses passes.
Box box_of(double radius);

// `radius`: the Gaussian's standard deviation in pixels, > 0. The result lies in one of the buffers `memory`;
// neither buffer may hold `picture`.
base::ImageView blur_picture(base::ImageView picture, double radius, std::array<PixelBuffer, 2>& memory);

}  // namespace millrace::transforms
