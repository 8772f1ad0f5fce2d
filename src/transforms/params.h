// SampleParams: the random decisions of one sample, drawn once, as plain structs that CPU and CUDA kernels
// take alike.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/geometry.h"
#include "millrace/augment_policy.h"

namespace millrace::transforms {

// Colours are changed in this order, each by its factor; an operation that is not in the chain is left out of
// the order.
enum class ColorOp : uint8_t { brightness, contrast, saturation, hue, none };

// The map from an output pixel's (x, y) back into the input: (m[0] x + m[1] y + m[2], m[3] x + m[4] y +
// m[5]), as Pillow's AFFINE; x and y are pixel centres, 0.5 to width - 0.5.
using InverseAffine = std::array<double, 6>;

// The same with a divisor, as Pillow's PERSPECTIVE: m as above, and both coordinates divided by m[6] x + m[7]
// y + 1.
using Homography = std::array<double, 8>;
struct PerspectiveParams {
  // Where the picture's corners go, as (x, y): top left, top right, bottom right, bottom left.
  std::array<std::array<int32_t, 2>, 4> corners{};
  Homography inverse{1, 0, 0, 0, 1, 0, 0, 0};
};

// What an InverseAffine was made from, in torchvision's terms.
struct AffineParams {
  bool rotation =
      false;  // by RandomRotation, whose angle is counter-clockwise; else by RandomAffine, clockwise
  double angle = 0, scale = 1;  // degrees
  int32_t translate_x = 0, translate_y = 0;
  double shear_x = 0, shear_y = 0;  // degrees
};

// An operation of an AugmentPolicy that happens, its value decided.
struct AugmentStep {
  AugmentKind kind = AugmentKind::identity;
  double value = 0;
  InverseAffine inverse{1, 0, 0, 0, 1, 0};  // of shears, translations and rotations
  Interpolation interpolation = Interpolation::nearest;
};

struct ColorJitterParams {
  std::array<ColorOp, 4> order{ColorOp::none, ColorOp::none, ColorOp::none, ColorOp::none};
  double brightness = 1, contrast = 1, saturation = 1;  // 1: as it was; 0: black, the mean grey, grey
  double hue = 0;                                       // turns of the colour circle, -0.5..0.5

  AugmentStep step(ColorOp op) const {
    switch (op) {
      case ColorOp::brightness: return {AugmentKind::brightness, brightness};
      case ColorOp::contrast: return {AugmentKind::contrast, contrast};
      case ColorOp::saturation: return {AugmentKind::saturation, saturation};
      case ColorOp::hue: return {AugmentKind::hue, hue};
      case ColorOp::none: break;
    }
    return {};
  }
};

// What an AugMix decides: copies, and the share of each. Not `blended`: shares of their sum, which then takes
// `share` of the picture. `blended`: of what the copies before it have become.
struct MixParams {
  struct Copy {
    float share = 0;
    std::vector<AugmentStep> steps;
  };
  std::vector<Copy> copies;
  float share = 1;
};

// One entry per transform of the chain that decided something, in chain order.
struct OpParams {
  enum class Kind : uint8_t {
    resized_crop,
    crop,
    frame,
    resize,
    flip_horizontal,
    flip_vertical,
    orientation,
    color_jitter,
    affine,
    perspective,
    distort,
    grayscale,
    blur,
    policy,
    mix,
    choice,
    noise,
    erase
  };
  Kind kind{};
  uint32_t op = 0;       // position in the chain
  base::Rect box{};      // resized_crop, crop, frame: in the coordinates of the picture at that point (crop:
                         // after padding); resize: its new size; erase: in the output
  bool applied = false;  // frame, flips, grayscale, erase, color_jitter, perspective, blur
  int orientation = 1;   // orientation
  ColorJitterParams color{};                // color_jitter, distort
  InverseAffine inverse{1, 0, 0, 0, 1, 0};  // affine (RandomRotation, RandomAffine)
  AffineParams affine{};
  PerspectiveParams perspective{};
  double sigma = 0;                                       // blur, in pixels
  Interpolation interpolation = Interpolation::bilinear;  // resized_crop, resize
  std::vector<AugmentStep> steps{};                       // policy
  MixParams mix{};                                        // mix
  uint64_t noise = 0;       // noise, erase with noise: the key of its numbers (noise.h)
  uint32_t chosen = 0;      // choice: the branch, whose entries follow
  uint8_t permutation = 0;  // distort: where each channel comes from, two bits each; 0: they stay
  std::vector<base::Rect> more_boxes{};  // erase: behind the first
};

struct SampleParams {
  std::vector<OpParams> ops;
};

}  // namespace millrace::transforms
