// Chain: a list of transforms, checked and sorted into what changes pictures, what turns bytes into numbers,
// and what erases them.
//
// check_chain() is where every rule about order and arguments lives; everything behind it may rely on them.
// Pure, any thread.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "base/geometry.h"
#include "millrace/transform_spec.h"
#include "transforms/resample_taps.h"

namespace millrace::transforms {

// Of recorded pictures (pictures/recorded_picture.h), not of chains: nothing is drawn. A box may reach
// outside of the picture, where it is black.
struct Crop {
  base::Rect box;
};
// Pillow's resize: only `extent_x` and `extent_y` of the picture, all of it where they are missing.
struct BoxResize {
  int32_t height = 0, width = 0;
  Interpolation interpolation = Interpolation::bicubic;
  std::optional<Extent> extent_x{}, extent_y{};
  bool may_begin_down = true;  // Pillow 13 makes the vertical pass first where that is less work
};

// Each byte becomes another, by channel: Pillow's point().
struct PointTable {
  std::shared_ptr<const std::array<uint8_t, 3 * 256>> values;
};

using PictureSpec =
    std::variant<RandomResizedCrop, Resize, CenterCrop, RandomCrop, HorizontalFlip, VerticalFlip,
                 ExifTranspose, ColorJitter, Grayscale, RandomGrayscale, RandomRotation, RandomAffine,
                 GaussianBlur, AugmentPolicy, Crop, BoxResize, PointTable>;

struct PictureStep {
  PictureSpec spec;
  uint32_t op = 0;  // position in the user's chain: names the step in random draws and in messages
};
struct EraseStep {
  RandomErasing spec;
  uint32_t op = 0;
};

struct Chain {
  std::vector<PictureStep> steps;  // in order; those that stood behind ToTensor commute with it
  ToTensor to_tensor;
  std::optional<Normalize> normalize;  // mean and std have three values each
  std::vector<EraseStep> erasing;      // in order, behind everything else

  bool needs_orientation() const;
};

// Throws Error(invalid_argument) naming the transform, the rule and the remedy.
Chain check_chain(const std::vector<TransformSpec>& chain);

}  // namespace millrace::transforms
