// AugmentPolicy: augmentation by a random choice of operations, as plain structs: RandAugment (Cubuk et al.
// 2020), AutoAugment (Cubuk et al. 2019), TrivialAugmentWide (Mueller and Hutter 2021), timm's variants of
// these, and single operations that happen or not.
//
// A policy is a list of branches, each with operations in order. Drawn for each picture: the branches; then,
// for each of their operations, whether it happens, its interpolation, its value and the value's sign.
// Operations are those of Pillow's Image, ImageOps and ImageEnhance on pictures of bytes; none changes the
// size.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "millrace/interpolation.h"

namespace millrace {

enum class AugmentKind : uint8_t {
  identity,
  shear_x,      // value: pixels along x for each pixel down
  shear_y,      //
  translate_x,  // pixels; torchvision's to the right, Pillow's map to the left
  translate_y,
  rotate,        // degrees, counter-clockwise
  brightness,    // these four: the factor of ImageEnhance, 1 for no change
  contrast,      //
  saturation,    // ImageEnhance.Color
  sharpness,     //
  hue,           // turns of the colour circle
  permute,       // where each channel comes from, two bits each
  posterize,     // bits kept of each byte, up to 8
  solarize,      // bytes from this value on are inverted
  solarize_add,  // added to bytes below 128, up to 255
  autocontrast,
  equalize,
  invert,
  gaussian_blur,  // ImageFilter.GaussianBlur: its radius, the standard deviation in pixels
};

// The names in dicts, draws and messages, in the order of the enumeration.
inline constexpr std::array kAugmentNames{
    "identity",     "shear_x",      "shear_y",   "translate_x", "translate_y",  "rotate",    "brightness",
    "contrast",     "saturation",   "sharpness", "hue",         "permute",      "posterize", "solarize",
    "solarize_add", "autocontrast", "equalize",  "invert",      "gaussian_blur"};
static_assert(kAugmentNames.size() == static_cast<size_t>(AugmentKind::gaussian_blur) + 1);

constexpr const char* name_of(AugmentKind kind) { return kAugmentNames[static_cast<size_t>(kind)]; }

// Whether a policy may have it; the others are steps of ColorJitter and PhotometricDistort alone.
constexpr bool is_of_policies(AugmentKind kind) {
  return kind != AugmentKind::hue && kind != AugmentKind::permute;
}

// Whether it moves pixels by a map; all others change their values.
constexpr bool is_map(AugmentKind kind) {
  return kind >= AugmentKind::shear_x && kind <= AugmentKind::rotate;
}

// A value that depends on a level: offset +- scale * level, between `least` and `greatest`. The level is
// `mean`, or drawn around it, and lies between 0 and `most`.
struct AugmentLevel {
  double mean = 0, deviation = 0;  // normally distributed; 0: always the mean
  bool uniform = false;            // between 0 and the mean instead
  double most = 10;
  double offset = 0, scale = 1, least = -1e9, greatest = 1e9;
  bool truncated = false;  // scale * level becomes a whole number, towards 0
};

struct AugmentOp {
  AugmentKind kind = AugmentKind::identity;
  double p = 1;                         // how often it happens
  std::vector<double> values{};         // one is drawn, each as often; the value is base +- it
  std::optional<AugmentLevel> level{};  // in place of `values`
  double base = 0;
  bool is_signed = false;  // - half of the time
  // Translations. share > 0: values are shares of the picture's side, value * share * side; with bins > 0
  // `value` is an index into torch.linspace(0, share * side, bins) of floats. whole: made whole, towards 0.
  double share = 0;
  int32_t bins = 0;
  bool whole = false;
  // Posterize: a picture for which fewer bits are drawn is an error, as in Pillow from 13 on.
  int32_t least_bits = 1;
};

struct AugmentBranch {
  double weight = 1;
  std::vector<AugmentOp> ops;
};

struct AugmentPolicy {
  // How shears and translations become maps: with the arithmetic of torchvision's affine() (the value is the
  // tangent of the shear's angle; translations go to the right and down), or as the entries of Pillow's
  // AFFINE.
  enum class Geometry : uint8_t { torchvision, pillow };

  int32_t count = 1;    // of branches that are drawn
  bool replace = true;  // a branch may be drawn again
  std::vector<AugmentBranch> branches;
  std::vector<Interpolation> interpolations{Interpolation::nearest};  // one is drawn for each operation
  std::array<uint8_t, 3> fill{};
  Geometry geometry = Geometry::torchvision;
  double p = 1;  // how often anything is drawn
};

// Several copies of the picture, each changed by some operations of a policy, mixed with each other and then
// with the picture itself (Hendrycks et al., "AugMix", ICLR 2020), as timm does it with Pillow.
struct AugMix {
  AugmentPolicy policy;  // its count is not looked at
  int32_t width = 3;     // copies
  int32_t depth = -1;    // operations on each; -1: 1 to 3, drawn
  double alpha = 1;      // of the Dirichlet and Beta distributions of the shares
  // Copies are blended into the picture one by one, in bytes, instead of summed in floats.
  bool blended = false;
};

}  // namespace millrace
