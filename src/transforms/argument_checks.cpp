#include "transforms/argument_checks.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

namespace millrace::transforms {
namespace {

void check_resize(bool of_tensor, Interpolation interpolation, const Check& check) {
  check.require(
      !of_tensor || interpolation == Interpolation::bilinear || interpolation == Interpolation::bicubic,
      "a tensor is resized bilinear or bicubic; use others before the conversion to a tensor");
}
void check_map(Interpolation interpolation, const Check& check) {
  check.require(interpolation <= Interpolation::bicubic, "maps by nearest, bilinear or bicubic");
}
void check_operation(const AugmentOp& op, const Check& check) {
  check.probability(op.p);
  check.require(is_of_policies(op.kind),
                "hue and permute are steps of ColorJitter and RandomPhotometricDistort, not of a policy");
  const auto finite = [](double v) { return std::abs(v) <= Check::kAny; };
  check.require(std::all_of(op.values.begin(), op.values.end(), finite) && finite(op.base),
                "an operation's values must be finite");
  check.require(op.share == 0 || op.kind == AugmentKind::translate_x || op.kind == AugmentKind::translate_y,
                "only translations are shares of a side");
  check.require(op.share >= 0 && finite(op.share) && op.bins >= 0, "share and bins must be >= 0");
  if (op.bins > 0)
    for (const double index : op.values)
      check.require(index >= 0 && index < op.bins, "an index of bins must lie below their number");
  if (op.level)
    check.require(finite(op.level->mean) && finite(op.level->offset) && finite(op.level->scale) &&
                      op.level->deviation >= 0 && finite(op.level->deviation) && op.level->most >= 0,
                  "a level's numbers must be finite, and its deviation and most >= 0");
  const auto bits = [&](double v) { return op.base + v >= op.least_bits && op.base + v <= 8; };
  if (op.kind == AugmentKind::posterize && !op.level)
    check.require(std::all_of(op.values.begin(), op.values.end(), bits),
                  "bits must be between or equal to " + std::to_string(op.least_bits) + " and 8");
}
}  // namespace

const char* name_of(const TransformSpec& spec) {
  struct Names {
    const char* operator()(const RandomResizedCrop&) const { return "RandomResizedCrop"; }
    const char* operator()(const Resize&) const { return "Resize"; }
    const char* operator()(const CenterCrop&) const { return "CenterCrop"; }
    const char* operator()(const RandomCrop&) const { return "RandomCrop"; }
    const char* operator()(const Frame& t) const {
      switch (t.kind) {
        case Frame::Kind::pad: return "Pad";
        case Frame::Kind::center: return "CenterCropOrPad";
        case Frame::Kind::anywhere: return "RandomCropOrPad";
        case Frame::Kind::zoom_out: break;
      }
      return "RandomZoomOut";
    }
    const char* operator()(const DrawnResize& t) const {
      switch (t.kind) {
        case DrawnResize::Kind::keep_ratio: return "ResizeKeepRatio";
        case DrawnResize::Kind::shortest: return "RandomShortestSize";
        case DrawnResize::Kind::jitter: return "ScaleJitter";
        case DrawnResize::Kind::between: break;
      }
      return "RandomResize";
    }
    const char* operator()(const RandomPerspective&) const { return "RandomPerspective"; }
    const char* operator()(const HorizontalFlip&) const { return "RandomHorizontalFlip"; }
    const char* operator()(const VerticalFlip&) const { return "RandomVerticalFlip"; }
    const char* operator()(const ExifTranspose&) const { return "ExifTranspose"; }
    const char* operator()(const ColorJitter&) const { return "ColorJitter"; }
    const char* operator()(const PhotometricDistort&) const { return "RandomPhotometricDistort"; }
    const char* operator()(const RandomChoice&) const { return "RandomChoice"; }
    const char* operator()(const GaussianNoise&) const { return "GaussianNoise"; }
    const char* operator()(const Grayscale&) const { return "Grayscale"; }
    const char* operator()(const RandomGrayscale&) const { return "RandomGrayscale"; }
    const char* operator()(const RandomRotation&) const { return "RandomRotation"; }
    const char* operator()(const RandomAffine&) const { return "RandomAffine"; }
    const char* operator()(const GaussianBlur&) const { return "GaussianBlur"; }
    const char* operator()(const AugmentPolicy&) const { return "AugmentPolicy"; }
    const char* operator()(const AugMix&) const { return "AugMix"; }
    const char* operator()(const ToTensor&) const { return "ToTensor"; }
    const char* operator()(const Normalize&) const { return "Normalize"; }
    const char* operator()(const RandomErasing&) const { return "RandomErasing"; }
  };
  return std::visit(Names{}, spec);
}

void check_arguments(const RandomResizedCrop& t, const Check& check) {
  check.positive_size(t.height, t.width);
  check.require(std::isfinite(t.scale_max) && t.scale_min >= 0 && t.scale_min <= t.scale_max,
                "scale must be (min, max) with 0 <= min <= max, as fractions of the picture's area");
  check.require(std::isfinite(t.ratio_max) && t.ratio_min > 0 && t.ratio_min <= t.ratio_max,
                "ratio must be (min, max) with 0 < min <= max, as width / height");
  check_resize(t.of_tensor, t.interpolation, check);
  for (const Interpolation interpolation : t.interpolations) check_resize(t.of_tensor, interpolation, check);
}
void check_arguments(const Resize& t, const Check& check) {
  check.require(t.height > 0 ? t.width >= 0 : t.height == 0 && t.width == 0 && t.max_size > 0,
                "height and width must be > 0");
  check.require(t.max_size == 0 || t.width == 0,
                "max_size should only be passed if size specifies the length of the smaller edge; give one "
                "size or no max_size");
  check.require(t.max_size == 0 || t.max_size > t.height,
                "max_size = " + std::to_string(t.max_size) +
                    " must be strictly greater than the requested size for the smaller edge size = " +
                    std::to_string(t.height));
  check_resize(t.of_tensor, t.interpolation, check);
}
void check_arguments(const CenterCrop& t, const Check& check) { check.positive_size(t.height, t.width); }
void check_arguments(const RandomCrop& t, const Check& check) {
  check.positive_size(t.height, t.width);
  for (const int32_t side : t.padding)
    check.require(side >= 0, "padding must be >= 0; to cut borders off, use CenterCrop");
}
void check_arguments(const Frame& t, const Check& check) {
  if (t.kind != Frame::Kind::pad && t.kind != Frame::Kind::zoom_out) check.positive_size(t.height, t.width);
  for (const int32_t side : t.padding) {
    check.require(side >= 0 || t.padding_mode == PaddingMode::constant,
                  "padding must be >= 0 in this padding_mode; cut borders off in a step before");
    check.require(std::abs(int64_t{side}) <= 1 << 28, "padding must fit in memory");
  }
  check.probability(t.p);
  check.require(t.side_min >= 1 && t.side_min <= t.side_max && t.side_max <= 1 << 15,
                "side_range must be (min, max) with 1 <= min <= max <= 32768");
}
void check_arguments(const DrawnResize& t, const Check& check) {
  const bool fits = t.kind == DrawnResize::Kind::keep_ratio || t.kind == DrawnResize::Kind::jitter;
  if (fits) check.positive_size(t.height, t.width);
  check.require(std::abs(t.longest) <= Check::kAny, "longest must be finite");
  check.probability(t.scale_p);
  check.probability(t.aspect_p);
  check.range("scale_range", t.scale, 0, Check::kAny);
  check.range("random_aspect_range", t.aspect, 0, Check::kAny);
  check.require(t.scale.min > 0 && t.aspect.min > 0, "factors must be above 0");
  check.require(fits || !t.sizes.empty(), "min_size must have one size or more");
  for (const int32_t size : t.sizes) check.require(size > 0, "sizes must be > 0");
  check.require(t.kind != DrawnResize::Kind::between || (t.sizes.size() == 2 && t.sizes[0] < t.sizes[1]),
                "min_size must be below max_size");
  check.require(t.max_size >= 0, "max_size must be > 0");
  check.require(!t.interpolations.empty(), "needs an interpolation");
  for (const Interpolation interpolation : t.interpolations) check_resize(t.of_tensor, interpolation, check);
}
void check_arguments(const RandomPerspective& t, const Check& check) {
  check.require(t.distortion_scale >= 0 && t.distortion_scale <= 1,
                "Argument distortion_scale value should be between 0 and 1");
  check.probability(t.p);
  check_map(t.interpolation, check);
}
void check_arguments(const HorizontalFlip& t, const Check& check) { check.probability(t.p); }
void check_arguments(const VerticalFlip& t, const Check& check) { check.probability(t.p); }
void check_arguments(const ExifTranspose&, const Check&) {}
void check_arguments(const ColorJitter& t, const Check& check) {
  if (t.brightness) check.range("brightness", *t.brightness, 0, Check::kAny);
  if (t.contrast) check.range("contrast", *t.contrast, 0, Check::kAny);
  if (t.saturation) check.range("saturation", *t.saturation, 0, Check::kAny);
  if (t.hue) check.range("hue", *t.hue, -0.5, 0.5);
  check.probability(t.p);
}
void check_arguments(const PhotometricDistort& t, const Check& check) {
  check.range("brightness", t.brightness, 0, Check::kAny);
  check.range("contrast", t.contrast, 0, Check::kAny);
  check.range("saturation", t.saturation, 0, Check::kAny);
  check.range("hue", t.hue, -0.5, 0.5);
  check.probability(t.p);
}
void check_arguments(const GaussianNoise& t, const Check& check) {
  check.require(t.sigma >= 0 && t.sigma <= Check::kAny, "sigma shouldn't be negative, nor infinite");
  check.require(std::abs(t.mean) <= Check::kAny, "mean must be finite");
}
void check_arguments(const Grayscale&, const Check&) {}
void check_arguments(const RandomGrayscale& t, const Check& check) { check.probability(t.p); }
void check_arguments(const RandomRotation& t, const Check& check) {
  check.range("degrees", t.degrees, -Check::kAny, Check::kAny);
  check.center(t.center);
  check_map(t.interpolation, check);
}
void check_arguments(const RandomAffine& t, const Check& check) {
  check.range("degrees", t.degrees, -Check::kAny, Check::kAny);
  if (t.translate)
    for (const double share : *t.translate)
      check.require(share >= 0 && share <= 1, "translation values should be between 0 and 1");
  if (t.scale) {
    check.range("scale", *t.scale, 0, Check::kAny);
    check.require(t.scale->min > 0, "scale values should be positive");
  }
  check.range("shear along x", t.shear_x, -Check::kAny, Check::kAny);
  check.range("shear along y", t.shear_y, -Check::kAny, Check::kAny);
  check.center(t.center);
  check_map(t.interpolation, check);
}
void check_arguments(const GaussianBlur& t, const Check& check) {
  const auto odd = [](int32_t size) { return size > 0 && size % 2 == 1 && size <= 9999; };
  check.require(odd(t.kernel_width) && odd(t.kernel_height),
                "Kernel size value should be an odd and positive number below 10000");
  check.range("sigma", t.sigma, 0, Check::kAny);
  check.probability(t.p);
  check.require(t.sigma.min > 0, "sigma values should be positive and of the form (min, max)");
}
void check_arguments(const AugmentPolicy& t, const Check& check) {
  check.probability(t.p);
  check.require(!t.branches.empty() && t.count >= 0, "needs a branch to draw, and count >= 0");
  check.require(!t.interpolations.empty(), "needs an interpolation");
  for (const Interpolation interpolation : t.interpolations) check_map(interpolation, check);
  double sum = 0;
  int64_t usable = 0;
  for (const AugmentBranch& branch : t.branches) {
    check.require(branch.weight >= 0 && branch.weight <= Check::kAny, "weights must be finite and >= 0");
    sum += branch.weight;
    usable += branch.weight > 0;
    for (const AugmentOp& op : branch.ops) check_operation(op, check);
  }
  check.require(sum > 0, "one weight must be above 0");
  check.require(t.replace || t.count <= usable,
                "cannot draw more branches than there are, without drawing one twice");
}
void check_arguments(const AugMix& t, const Check& check) {
  check_arguments(t.policy, check);
  check.require(t.policy.replace, "draws operations that may come again");
  check.require(t.width >= 1 && t.width <= 64, "width must be 1 to 64");
  check.require(t.depth == -1 || (t.depth >= 1 && t.depth <= 64), "depth must be -1, or 1 to 64");
  check.require(t.alpha > 0 && t.alpha <= Check::kAny, "alpha must be above 0 and finite");
}
void check_arguments(const RandomErasing& t, const Check& check) {
  check.probability(t.p);
  check.range("scale", t.scale, 0, 1);
  check.range("ratio", t.ratio, 0, Check::kAny);
  check.require(t.ratio.min > 0, "ratio values should be positive, as height / width");
  check.require(t.count_min >= 0 && t.count_min <= t.count_max && t.count_max <= 1024,
                "counts must be (min, max) with 0 <= min <= max <= 1024");
  check.require(
      t.value.empty() || t.value.size() == 1 || t.value.size() == 3,
      "If value is a sequence, it should have either a single value or 3 (number of input channels)");
}

void check_normalize(const Normalize& t, const Check& check) {
  const auto one_or_three = [](const std::vector<double>& v) { return v.size() == 1 || v.size() == 3; };
  check.require(one_or_three(t.mean) && one_or_three(t.std),
                "mean and std need one value or one for each of the three channels, got " +
                    std::to_string(t.mean.size()) + " and " + std::to_string(t.std.size()));
  for (const double v : t.mean) check.require(std::isfinite(v), "mean must be finite");
  for (const double v : t.std) {
    check.require(
        v != 0, "std evaluated to zero, leading to division by zero; give each channel's standard deviation");
    check.require(std::isfinite(v), "std must be finite");
  }
}

}  // namespace millrace::transforms
