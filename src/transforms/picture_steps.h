// PictureStep: one decided step of a picture: a move of whole pixels, a resize, a map, a change of values.
//
// Plain values, with the size and place of everything known. Transforms of a chain become such steps once
// their random decisions are drawn (ops/operations.h); a RecordedPicture records them; the CPU's plan
// (sample_plan.h) and the GPU's passes (device/picture_passes.h) run them, with the same pixels. Nothing here
// knows pixels, so the same steps can be taken on boxes, masks and key points.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "base/geometry.h"
#include "millrace/transform_spec.h"
#include "transforms/params.h"
#include "transforms/picture_size.h"
#include "transforms/resample_taps.h"

namespace millrace::transforms {

// Rows become columns; only as the first step.
struct TransposeStep {};

// A crop, followed by flips. The crop may reach outside of the picture.
struct MoveStep {
  base::Rect box;  // not empty
  bool flip_horizontal = false, flip_vertical = false;
  PaddingMode mode = PaddingMode::constant;  // of the pixels outside
  std::array<uint8_t, 3> fill{};
};

// By any filter, or to nearest pixels.
struct ResizeStep {
  int32_t width = 0, height = 0;
  Interpolation interpolation = Interpolation::bilinear;
  bool of_tensor = false;      // rounded as torch's resize of tensors; else as Pillow's
  bool may_begin_down = true;  // Pillow 13 runs the vertical pass first if that is less work
  std::optional<Extent> extent_x{}, extent_y{};  // the part that is resized, both or none; Pillow's `box`
};

struct MapStep {
  InverseAffine inverse{kNoMap};
  Interpolation interpolation = Interpolation::nearest;  // bilinear, bicubic
  std::array<uint8_t, 3> fill{};
};

struct PerspectiveStep {
  Homography inverse{1, 0, 0, 0, 1, 0, 0, 0};
  Interpolation interpolation = Interpolation::bilinear;  // nearest, bicubic
  std::array<uint8_t, 3> fill{};
};

// An operation on values: neither `identity` nor a map.
struct RecolorStep {
  AugmentKind kind = AugmentKind::identity;
  double value = 0;  // as AugmentStep's
};

// Each byte becomes another, by channel: Pillow's point().
struct PointStep {
  std::shared_ptr<const std::array<uint8_t, 3 * 256>> values;
};

// torchvision's GaussianBlur: as many weights as its kernel has, an odd number.
struct BlurStep {
  std::vector<float> x, y;
};

// Copies of the picture that are made and mixed into it.
struct MixStep {
  MixParams params;
  std::array<uint8_t, 3> fill{};
  bool blended = false;
};

using PictureStep = std::variant<TransposeStep, MoveStep, ResizeStep, MapStep, PerspectiveStep, RecolorStep,
                                 PointStep, BlurStep, MixStep>;
using PictureSteps = std::vector<PictureStep>;

PictureSize size_after(const PictureStep& step, PictureSize in);

inline void add_map(const InverseAffine& inverse, Interpolation interpolation,
                    const std::array<uint8_t, 3>& fill, PictureSteps& to) {
  if (inverse != kNoMap) to.push_back(MapStep{inverse, interpolation, fill});
}

// Adds nothing if `step` does nothing.
void add_operation(const AugmentStep& step, const std::array<uint8_t, 3>& fill, PictureSteps& to);

}  // namespace millrace::transforms
