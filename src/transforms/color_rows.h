// Colour changes: those that work row by row, and those that need a whole picture first. Pillow's arithmetic,
// bit for bit. Pure, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "base/geometry.h"
#include "transforms/picture_mixer.h"
#include "transforms/pixel_buffer.h"
#include "transforms/sample_plan.h"

namespace millrace::transforms {

// Applies `steps` to a row, in order. `steps` is not empty; no step needs the picture. `out` may be `row`.
void change_colors(std::span<const ColorStep> steps, const uint8_t* row, int32_t width, uint8_t* out);

// Memory for the steps that make a whole picture, reused from picture to picture.
struct PictureMemory {
  std::array<PixelBuffer, 2> blurred;
  std::unique_ptr<PictureMixer> mixer;  // made when it is first needed: it has buffers of its own
};

// Applies a step that needs the picture to its rows, one by one. The constructor reads all of `picture` and
// keeps the view.
class PictureChange {
 public:
  // `memory` keeps the result of a blur or a mix; it must not hold `picture`.
  PictureChange(const ColorStep& step, base::ImageView picture, PictureMemory& memory);
  void row(int32_t y, uint8_t* out) const;

 private:
  const ColorStep& step_;
  base::ImageView picture_;
  uint8_t level_ = 0;                                // contrast
  std::array<std::array<uint8_t, 256>, 3> table_{};  // autocontrast, equalize
};

// Returns the level that Pillow's ImageEnhance.Contrast blends with: the rounded mean of the grey picture.
uint8_t mean_grey(base::ImageView picture);

// How often each byte occurs, by channel.
std::array<std::array<int64_t, 256>, 3> histogram_of(base::ImageView picture);

}  // namespace millrace::transforms
