// SampleParams: the random decisions of one sample, drawn once, as plain structs that CPU and CUDA kernels
// take alike.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/geometry.h"
#include "millrace/transform_spec.h"

namespace millrace::transforms {

// Colours are changed in this order, each by its factor; the order leaves out operations that are not in the
// chain.
enum class ColorOp : uint8_t { brightness, contrast, saturation, hue, none };
inline constexpr std::array kColorKinds{AugmentKind::brightness, AugmentKind::contrast,
                                        AugmentKind::saturation, AugmentKind::hue};  // by ColorOp

// The map from an output pixel's (x, y) back into the input: (m[0] x + m[1] y + m[2], m[3] x + m[4] y +
// m[5]), as Pillow's AFFINE; x and y are pixel centres, 0.5 to width - 0.5.
using InverseAffine = std::array<double, 6>;
inline constexpr InverseAffine kNoMap{1, 0, 0, 0, 1, 0};

// The same with a divisor, as Pillow's PERSPECTIVE: m as above, and both coordinates divided by m[6] x + m[7]
// y + 1.
using Homography = std::array<double, 8>;
struct PerspectiveParams {
  // Where the picture's corners go, as (x, y): top left, top right, bottom right, bottom left.
  std::array<std::array<int32_t, 2>, 4> corners{};
  Homography inverse{1, 0, 0, 0, 1, 0, 0, 0};
};

// The parameters that give an InverseAffine, in torchvision's terms.
struct AffineParams {
  double angle = 0, scale = 1;  // degrees; RandomRotation's is counter-clockwise, RandomAffine's clockwise
  int32_t translate_x = 0, translate_y = 0;
  double shear_x = 0, shear_y = 0;  // degrees
};

// An operation of an AugmentPolicy that is applied, with its value.
struct AugmentStep {
  AugmentKind kind = AugmentKind::identity;
  double value = 0;
  InverseAffine inverse{kNoMap};  // of shears, translations and rotations
  Interpolation interpolation = Interpolation::nearest;
};

struct ColorJitterParams {
  std::array<ColorOp, 4> order{ColorOp::none, ColorOp::none, ColorOp::none, ColorOp::none};
  double brightness = 1, contrast = 1, saturation = 1;  // 1: as it was; 0: black, the mean grey, grey
  double hue = 0;                                       // turns of the colour circle, -0.5..0.5

  double& amount(ColorOp op) {
    return op == ColorOp::brightness   ? brightness
           : op == ColorOp::contrast   ? contrast
           : op == ColorOp::saturation ? saturation
                                       : hue;
  }
  AugmentStep step(ColorOp op) const {
    if (op == ColorOp::none) return {};
    return {kColorKinds[static_cast<size_t>(op)], ColorJitterParams(*this).amount(op)};
  }
};

// The decisions of an AugMix: copies, and the share of each. Not `blended`: shares of the copies' sum; the
// sum then takes `share` of the picture. `blended`: each copy's share in a blend with the result so far.
struct MixParams {
  struct Copy {
    float share = 0;
    std::vector<AugmentStep> steps;
  };
  std::vector<Copy> copies;
  float share = 1;
};

// The position of a transform's type in TransformVariant.
template <class T, class Variant>
inline constexpr uint8_t kPositionIn = 0;
template <class T, class... Types>
inline constexpr uint8_t kPositionIn<T, std::variant<Types...>> = [] {
  uint8_t position = 0;
  (void)((std::is_same_v<T, Types> || (++position, false)) || ...);
  return position;
}();
template <class T>
inline constexpr uint8_t kKindOf = kPositionIn<T, TransformVariant>;

// One entry per transform of the chain that decided something, in chain order.
struct OpParams {
  uint8_t kind = 0;      // kKindOf its transform
  uint32_t op = 0;       // position in the chain
  base::Rect box{};      // crops, frames: in the coordinates of the picture at that point (RandomCrop: after
                         // padding); DrawnResize: the new size; RandomErasing: in the output
  bool applied = false;  // of transforms that happen with some probability
  int orientation = 1;   // of the stored picture
  ColorJitterParams color{};
  InverseAffine inverse{kNoMap};  // of rotations and affine maps
  AffineParams affine{};
  PerspectiveParams perspective{};
  double sigma = 0;  // GaussianBlur, in pixels
  Interpolation interpolation = Interpolation::bilinear;
  std::vector<AugmentStep> steps{};  // AugmentPolicy
  MixParams mix{};
  uint64_t noise = 0;       // the key of its numbers (noise.h)
  uint32_t chosen = 0;      // RandomChoice: the branch, with its entries after this one
  uint8_t permutation = 0;  // PhotometricDistort: where each channel comes from, two bits each; 0: they stay
  std::vector<base::Rect> more_boxes{};  // RandomErasing: after the first
};

struct SampleParams {
  std::vector<OpParams> ops;
};

}  // namespace millrace::transforms
