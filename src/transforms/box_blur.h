// blur_picture(): Pillow's ImageFilter.GaussianBlur, bit for bit: three box blurs along x, then three along
// y.
//
// A box of a broken width weighs its two outermost pixels less (Gwosdek et al., "Theoretical foundations of
// Gaussian convolution by extended box filtering", SSVM 2011); outside of the picture are its border's
// pixels. Weights are 24-bit fixed point, sums 32-bit, and bytes stand between the passes. No state, any
// thread.
#pragma once

#include <array>

#include "base/geometry.h"
#include "transforms/box_blur_kernel.h"
#include "transforms/pixel_buffer.h"

namespace millrace::transforms {

inline constexpr int kBoxPasses = 3;  // along each axis

// The box whose three passes stand for a Gaussian of this radius.
Box box_of(double radius);

// radius: of the Gaussian, in pixels, > 0: its standard deviation. The result lies in one of `memory`;
// neither holds `picture`.
base::ImageView blur_picture(base::ImageView picture, double radius, std::array<PixelBuffer, 2>& memory);

}  // namespace millrace::transforms
