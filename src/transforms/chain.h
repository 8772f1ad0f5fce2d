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

// One of several lists of steps.
struct ChoiceSteps;
struct Choice {
  std::vector<double> weights;
  std::shared_ptr<const ChoiceSteps> branches;
};

using PictureSpec = std::variant<RandomResizedCrop, Resize, CenterCrop, RandomCrop, Frame, HorizontalFlip,
                                 VerticalFlip, ExifTranspose, DrawnResize, ColorJitter, PhotometricDistort,
                                 Grayscale, RandomGrayscale, RandomRotation, RandomAffine, RandomPerspective,
                                 GaussianBlur, AugmentPolicy, AugMix, Choice, Crop, BoxResize, PointTable>;

struct PictureStep {
  PictureSpec spec;
  // Position in the user's chain, or a number from kNestedSteps on inside of a Choice: names the step in
  // random draws and in messages.
  uint32_t op = 0;
};
inline constexpr uint32_t kNestedSteps = 1u << 15;
struct ChoiceSteps {
  std::vector<std::vector<PictureStep>> lists;
};
struct NoiseStep {
  GaussianNoise spec;
  uint32_t op = 0;
};
struct EraseStep {
  RandomErasing spec;
  uint32_t op = 0;
};

struct Chain {
  std::vector<PictureStep> steps;  // in order; those that stood behind ToTensor commute with it
  ToTensor to_tensor;
  std::optional<Normalize> normalize;  // mean and std have three values each
  std::optional<NoiseStep> noise;
  bool noise_first = false;        // the noise is added before the values are normalised
  std::vector<EraseStep> erasing;  // in order, behind everything else

  bool needs_orientation() const;
};

// Throws Error(invalid_argument) naming the transform, the rule and the remedy.
Chain check_chain(const std::vector<TransformSpec>& chain);

}  // namespace millrace::transforms
