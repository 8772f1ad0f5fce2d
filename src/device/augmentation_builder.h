// AugmentationBuilder: the decided steps of a chain, one after the other, as the one Augmentation that a
// fused kernel runs.
//
// Told the steps in the chain's order, it follows how large the picture is; what is told it are the decisions
// of SampleParams. Steps that one crop, one resize, flips and colours cannot express exactly make result()
// empty: the sample is the CPU's. Plain value, one thread.
#pragma once

#include <cstdint>
#include <optional>

#include "base/geometry.h"
#include "device/fused_augment.h"

namespace millrace::device {

class AugmentationBuilder {
 public:
  AugmentationBuilder(int32_t width, int32_t height);  // of the picture as decoded

  // The size that the picture has now.
  int32_t width() const { return width_; }
  int32_t height() const { return height_; }

  // `box` in the picture as it is now; what lies outside it is black.
  void crop(const base::Rect& box);
  void resize(int32_t width, int32_t height, Interpolation interpolation, bool of_tensor = false);
  void flip_horizontal() { flip_x_ = !flip_x_; }
  void flip_vertical() { flip_y_ = !flip_y_; }
  void color_jitter(const transforms::ColorJitterParams& jitter);
  void grayscale() { made_.grayscale = true; }
  void something_else() { possible_ = false; }

  // Empty: not in one go.
  std::optional<Augmentation> result() const;

 private:
  bool coloured() const;

  Augmentation made_;
  int32_t width_, height_;
  bool resized_ = false, flip_x_ = false, flip_y_ = false, possible_ = true;
};

}  // namespace millrace::device
