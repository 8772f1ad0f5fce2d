// AugmentationBuilder: the decided steps of a chain, one after the other, as one Augmentation: what a fused
// kernel can do in one go, and steps behind it.
//
// Told the steps in the chain's order, it follows how large the picture is; what is told it are the decisions
// of SampleParams. One crop, one resize, flips and colours are the fused kernel's. What comes then becomes
// steps, and all that follows with it. Where these are too many or their pictures too large, result() is
// empty, and the sample is the CPU's. Plain value, one thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/geometry.h"
#include "device/fused_augment.h"

namespace millrace::device {

class AugmentationBuilder {
 public:
  AugmentationBuilder(int32_t width, int32_t height);  // of the picture as decoded

  // The size that the picture has now.
  int32_t width() const { return width_; }
  int32_t height() const { return height_; }

  // Rows become columns; before anything else.
  void transpose();
  // `box` in the picture as it is now; what lies outside it is seen as `mode` and `fill` say.
  void crop(const base::Rect& box, PaddingMode mode = PaddingMode::constant,
            const std::array<uint8_t, 3>& fill = {});
  void resize(int32_t width, int32_t height, Interpolation interpolation, bool of_tensor = false);
  void flip_horizontal();
  void flip_vertical();
  // Any step; boxes are in the picture as it is now.
  void take(const transforms::PictureStep& step);
  void numbers(FinishedNumbers numbers) { made_.numbers = std::move(numbers); }

  // Empty: not on the device.
  std::optional<Augmentation> result() const;

 private:
  bool coloured() const;
  void recolor(const transforms::RecolorStep& step);
  void add(transforms::PictureStep step);
  bool stepping() const { return !made_.steps.empty(); }
  void begin_steps();
  void resize_to(int32_t width, int32_t height, Interpolation interpolation, bool of_tensor);

  Augmentation made_;
  int32_t width_, height_;
  bool resized_ = false, flip_x_ = false, flip_y_ = false;
};

}  // namespace millrace::device
