// AugmentationBuilder: turns the decided steps of a chain into one Augmentation: the part that a fused kernel
// can do in one go, then further steps.
//
// The caller gives it the steps in the chain's order, with the decisions of SampleParams; it tracks the
// picture's size. The fused kernel does one crop, one resize, flips and colours. The first step that does not
// fit and all later ones become steps of the Augmentation. If these are too many or their pictures too large,
// result() is empty, and the CPU makes the sample. Plain value, one thread.
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

  // The picture's current size.
  int32_t width() const { return width_; }
  int32_t height() const { return height_; }

  // Turns rows into columns; must be the first step.
  void transpose();
  // `box` is in the current picture; `mode` and `fill` define the pixels outside the picture.
  void crop(const base::Rect& box, PaddingMode mode = PaddingMode::constant,
            const std::array<uint8_t, 3>& fill = {});
  void resize(int32_t width, int32_t height, Interpolation interpolation, bool of_tensor = false);
  void flip_horizontal();
  void flip_vertical();
  // Adds any step; its boxes are in the current picture.
  void take(const transforms::PictureStep& step);
  void numbers(FinishedNumbers numbers) { made_.numbers = std::move(numbers); }

  // Empty if the CPU must make the sample.
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
