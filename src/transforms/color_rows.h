// Changes of colour on rows, and the one that needs a whole picture. Pure, any thread.
#pragma once

#include <cstdint>
#include <span>

#include "base/geometry.h"
#include "transforms/sample_plan.h"

namespace millrace::transforms {

// One after the other on a row; `steps` has one or more and no contrast. `out` may be `row`.
void change_colors(std::span<const ColorStep> steps, const uint8_t* row, int32_t width, uint8_t* out);

// What Pillow's ImageEnhance.Contrast blends with: the rounded mean of the grey picture.
uint8_t mean_grey(base::ImageView picture);

}  // namespace millrace::transforms
