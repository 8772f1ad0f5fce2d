// TransformSpec: the transforms that millrace runs natively, as plain structs with torchvision's names and
// meaning.
//
// These describe; they do nothing. ImagePipeline (image_pipeline.h) checks a chain of them and runs it. Sizes
// are in pixels.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "millrace/augment_policy.h"
#include "millrace/interpolation.h"

namespace millrace {

// Bounds of a number that is drawn uniformly.
struct Range {
  double min = 0, max = 0;
  bool operator==(const Range&) const = default;
};

struct RandomResizedCrop {
  int32_t height = 0, width = 0;
  Range scale{0.08, 1.0};             // share of the picture's area
  Range ratio{3.0 / 4.0, 4.0 / 3.0};  // width / height
  Interpolation interpolation = Interpolation::bilinear;
  bool of_tensor = false;
  std::vector<Interpolation> interpolations{};  // one is drawn; empty: `interpolation`
};
// of_tensor: rounded as torch's resize of a tensor of bytes does it; else as Pillow's of a picture. They
// differ by a few levels.
struct Resize {
  // width == 0: `height` is the length of the shorter side; both 0: `max_size` is that of the longer side
  int32_t height = 0, width = 0;
  int32_t max_size = 0;  // 0: none; else the longer side's limit (shorter-side form only)
  Interpolation interpolation = Interpolation::bilinear;
  bool of_tensor = false;
};
struct CenterCrop {
  enum class Place : uint8_t {
    center,  // pads with 0 when the picture is smaller, as torchvision
    // Those of torchvision's FiveCrop, for which smaller pictures are errors:
    top_left,
    top_right,
    bottom_left,
    bottom_right,
    middle,
  };
  int32_t height = 0, width = 0;
  Place place = Place::center;
};
enum class PaddingMode : uint8_t { constant, edge, reflect, symmetric };
struct RandomCrop {
  int32_t height = 0, width = 0;
  std::array<int32_t, 4> padding{};  // left, top, right, bottom
  bool pad_if_needed = false;
  std::array<uint8_t, 3> fill{};
  PaddingMode padding_mode = PaddingMode::constant;
};
// The picture in a frame: a rectangle that may reach outside of the picture; the padding mode defines the
// pixels there.
struct Frame {
  enum class Kind : uint8_t {
    pad,       // by `padding`; negative: cut off. torchvision's Pad, timm's TrimBorder
    center,    // height x width of the middle: timm's CenterCropOrPad
    anywhere,  // height x width, along each axis inside or around the picture: timm's RandomCropOrPad
    zoom_out,  // larger by a factor of `side` both ways, the picture anywhere in it: torchvision's
               // RandomZoomOut
  };
  Kind kind = Kind::pad;
  int32_t height = 0, width = 0;
  std::array<int32_t, 4> padding{};  // left, top, right, bottom
  Range side{1, 4};                  // zoom_out
  double p = 1;                      // zoom_out
  std::array<uint8_t, 3> fill{};
  PaddingMode padding_mode = PaddingMode::constant;
};
struct HorizontalFlip {
  double p = 0.5;
};
struct VerticalFlip {
  double p = 0.5;
};
struct ExifTranspose {
};  // our option `ImageFolder(..., exif=True)`: turns the picture upright first; only at the front of a chain

// A resize to a size that depends on the picture's size and on chance.
struct DrawnResize {
  enum class Kind : uint8_t {
    keep_ratio,  // timm's ResizeKeepRatio
    shortest,    // torchvision's RandomShortestSize: the shorter side becomes one of `sizes`
    jitter,      // torchvision's ScaleJitter
    between,     // torchvision's RandomResize: the shorter side lies between two `sizes`, the second left out
  };
  Kind kind = Kind::keep_ratio;
  int32_t height = 0, width = 0;  // keep_ratio, jitter: what the picture is fitted to
  double longest = 0;             // keep_ratio: 0: covers height x width, 1: lies inside of it
  Range scale{1, 1};              // keep_ratio, jitter: a factor of both sides
  double scale_p = 0;             // keep_ratio: how often it is drawn
  bool scale_is_area = false;     // keep_ratio: of the part of the picture that then fills height x width
  Range aspect{1, 1};             // keep_ratio: a factor of width / height
  double aspect_p = 0;
  std::vector<int32_t> sizes{};  // shortest, between
  int32_t max_size = 0;          // shortest: the longer side's limit; 0: none
  std::vector<Interpolation> interpolations{Interpolation::bilinear};  // one is drawn
  bool of_tensor = false;                                              // as Resize's
};

// Colours, with Pillow's 8-bit arithmetic. A range that is missing leaves that property alone.
struct ColorJitter {
  std::optional<Range> brightness{}, contrast{}, saturation{}, hue{};
  double p = 1;  // how often it is applied: torchvision's RandomApply around it
};
// Brightness, saturation and hue in this order, contrast before or after the last two, then the channels in
// another order: each happens with probability p.
struct PhotometricDistort {
  Range brightness{0.875, 1.125}, contrast{0.5, 1.5}, saturation{0.5, 1.5}, hue{-0.05, 0.05};
  double p = 0.5;
};
struct Grayscale {};  // three equal channels: torchvision's Grayscale(3)
struct RandomGrayscale {
  double p = 0.1;
};

// Turns counter-clockwise by degrees, size kept. `center`: (x, y) in pixels from the upper left corner;
// missing: the middle.
struct RandomRotation {
  Range degrees{};
  Interpolation interpolation = Interpolation::nearest;
  std::optional<std::array<double, 2>> center{};
  std::array<uint8_t, 3> fill{};
};
// Turns clockwise, as torchvision's affine does.
struct RandomAffine {
  Range degrees{};
  std::optional<std::array<double, 2>>
      translate{};  // largest shifts along x and y, as shares of width and height
  std::optional<Range> scale{};
  Range shear_x{}, shear_y{};  // degrees
  Interpolation interpolation = Interpolation::nearest;
  std::optional<std::array<double, 2>> center{};
  std::array<uint8_t, 3> fill{};
};
// The picture's corners move inwards, each by up to distortion_scale of half a side.
struct RandomPerspective {
  double distortion_scale = 0.5, p = 0.5;
  Interpolation interpolation = Interpolation::bilinear;
  std::array<uint8_t, 3> fill{};
};
struct GaussianBlur {
  int32_t kernel_width = 0, kernel_height = 0;  // odd
  Range sigma{0.1, 2.0};                        // pixels
  double p = 1;                                 // as ColorJitter's
};

// The end of a chain: HWC bytes to a CHW tensor.
enum class OutputType : uint8_t { u8, f16, bf16, f32, f64 };
struct ToTensor {
  OutputType type = OutputType::f32;  // u8: values 0..255, unscaled
  // Float types. False, as ToTensor and ConvertImageDtype: x / 255 in f32, then cast. True, as
  // v2.ToDtype(scale=True): x * (1 / 255) in f32 (f64: in f64), then cast; the two differ in the last bit.
  bool multiply = false;
  int32_t channels = 3;  // or 1: the first one, of pictures that are grey
};
struct Normalize {
  std::vector<double> mean, std;
};  // one or three values each; needs a float tensor before it
// Adds normal noise to a tensor of f32, before or after Normalize. clip: to 0..1.
struct GaussianNoise {
  double mean = 0, sigma = 0.1;
  bool clip = true;
};
// Replaces random rectangles of a float tensor; only at the end of a chain.
struct RandomErasing {
  double p = 0.5;
  Range scale{0.02, 0.33}, ratio{0.3, 3.3};  // share of the area; height / width
  std::vector<double> value{0};              // one or three; empty: normal noise
  bool per_channel = false;                  // noise of one number for each channel
  int32_t count_min = 1, count_max = 1;      // rectangles, which share the area
};

// One of several lists of transforms of pictures; lists may be empty.
struct ChoiceBranches;
struct RandomChoice {
  std::vector<double> weights;  // one for each branch
  std::shared_ptr<const ChoiceBranches> branches;
};

using TransformVariant =
    std::variant<RandomResizedCrop, Resize, CenterCrop, RandomCrop, Frame, HorizontalFlip, VerticalFlip,
                 ExifTranspose, DrawnResize, ColorJitter, PhotometricDistort, Grayscale, RandomGrayscale,
                 RandomRotation, RandomAffine, RandomPerspective, GaussianBlur, AugmentPolicy, AugMix,
                 RandomChoice, ToTensor, GaussianNoise, Normalize, RandomErasing>;

template <class T, class Variant>
inline constexpr bool kIsOneOf = false;
template <class T, class... Types>
inline constexpr bool kIsOneOf<T, std::variant<Types...>> = (std::is_same_v<T, Types> || ...);

// Any one of them. Made of exactly these types: std::variant's own constructor would try each struct's
// members for what they could be made of, with which GCC spends minutes and gigabytes on a list of three.
struct TransformSpec : TransformVariant {
  template <class T>
    requires kIsOneOf<T, TransformVariant>
  TransformSpec(T transform) : TransformVariant(std::in_place_type<T>, std::move(transform)) {}
};

struct ChoiceBranches {
  std::vector<std::vector<TransformSpec>> lists;
};

}  // namespace millrace
