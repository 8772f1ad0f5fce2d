// PictureStep: what happens to one picture of bytes behind its crop, resize and flips, decided: moves of
// whole pixels, other resizes, affine maps and perspectives, changes of colour, blurs, AugMix.
//
// Each makes a whole picture of the one before it, with the pixels of the CPU's transforms (src/transforms).
// Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "millrace/interpolation.h"
#include "millrace/transform_spec.h"
#include "transforms/params.h"
#include "transforms/sample_plan.h"
#include "transforms/step_geometry.h"

namespace millrace::device {

// A crop, which may reach outside of the picture, and then flips.
struct MoveStep {
  base::Rect box;  // not empty
  bool flip_horizontal = false, flip_vertical = false;
  PaddingMode mode = PaddingMode::constant;  // what lies outside
  std::array<uint8_t, 3> fill{};
};

struct MapStep {
  transforms::InverseAffine inverse{1, 0, 0, 0, 1, 0};
  Interpolation interpolation = Interpolation::nearest;  // bilinear, bicubic
  std::array<uint8_t, 3> fill{};
};

struct PerspectiveStep {
  transforms::Homography inverse{1, 0, 0, 0, 1, 0, 0, 0};
  Interpolation interpolation = Interpolation::bilinear;  // nearest, bicubic
  std::array<uint8_t, 3> fill{};
};

// By any filter, or to nearest pixels.
struct ResizeStep {
  int32_t width = 0, height = 0;
  Interpolation interpolation = Interpolation::bilinear;
  bool of_tensor = false;  // rounded as torch's resize of tensors; else as Pillow's
};

// An operation that is no map.
struct RecolorStep {
  AugmentKind kind = AugmentKind::identity;
  double value = 0;  // as AugmentStep's
};

// torchvision's GaussianBlur: as many weights as its kernel has, an odd number.
struct BlurStep {
  std::vector<float> x, y;
};

using MixStep = transforms::PictureMix;

using PictureStep =
    std::variant<MoveStep, ResizeStep, MapStep, PerspectiveStep, RecolorStep, BlurStep, MixStep>;

// What a step of a policy does; empty: nothing.
std::optional<PictureStep> picture_step(const transforms::AugmentStep& step,
                                        const std::array<uint8_t, 3>& fill);

transforms::PictureSize size_behind(const PictureStep& step, transforms::PictureSize in);

}  // namespace millrace::device
