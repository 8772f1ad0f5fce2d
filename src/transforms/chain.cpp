#include "transforms/chain.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <type_traits>

#include "millrace/error.h"

namespace millrace::transforms {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

const char* name_of(const TransformSpec& spec) {
  struct Names {
    const char* operator()(const RandomResizedCrop&) const { return "RandomResizedCrop"; }
    const char* operator()(const Resize&) const { return "Resize"; }
    const char* operator()(const CenterCrop&) const { return "CenterCrop"; }
    const char* operator()(const RandomCrop&) const { return "RandomCrop"; }
    const char* operator()(const HorizontalFlip&) const { return "RandomHorizontalFlip"; }
    const char* operator()(const VerticalFlip&) const { return "RandomVerticalFlip"; }
    const char* operator()(const ExifTranspose&) const { return "ExifTranspose"; }
    const char* operator()(const ColorJitter&) const { return "ColorJitter"; }
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

// One transform of the chain under check: knows how to name itself in a message.
class Check {
 public:
  Check(const TransformSpec& spec, size_t position) : name_(name_of(spec)), position_(position) {}

  void require(bool holds, const std::string& rule_and_remedy) const {
    if (!holds)
      throw Error(ErrorKind::invalid_argument, std::string(name_) + " (transform " +
                                                   std::to_string(position_) +
                                                   " of the chain): " + rule_and_remedy);
  }

  void positive_size(int32_t height, int32_t width) const {
    require(height > 0 && width > 0,
            "height and width must be > 0, got " + std::to_string(height) + " x " + std::to_string(width));
  }
  void probability(double p) const {
    require(p >= 0 && p <= 1, "p must lie between 0 and 1, got " + std::to_string(p));
  }
  void range(const char* argument, const Range& r, double least, double most) const {
    require(r.min >= least && r.min <= r.max && r.max <= most,
            std::string(argument) + " must be (min, max) with " + text(least) + " <= min <= max" +
                (most < kAny ? " <= " + text(most) : " and finite") + ", got (" + text(r.min) + ", " +
                text(r.max) + ")");
  }
  void center(const std::optional<std::array<double, 2>>& at) const {
    require(!at || (std::abs((*at)[0]) <= kAny && std::abs((*at)[1]) <= kAny),
            "center must be (x, y), in pixels and finite");
  }

  static constexpr double kAny = 1e9;  // "finite", and no sum of a few such numbers loses its fractions

 private:
  static std::string text(double v) {
    std::ostringstream stream;
    stream << v;
    return stream.str();
  }

  const char* name_;
  size_t position_;
};

template <class T>
void check_tensor_resize(const T& t, const Check& check) {
  check.require(
      !t.of_tensor || t.interpolation != Interpolation::nearest,
      "a tensor is resized bilinear or bicubic; resize to the nearest before the conversion to a tensor");
}
void check_arguments(const RandomResizedCrop& t, const Check& check) {
  check.positive_size(t.height, t.width);
  check.require(std::isfinite(t.scale_max) && t.scale_min >= 0 && t.scale_min <= t.scale_max,
                "scale must be (min, max) with 0 <= min <= max, as fractions of the picture's area");
  check.require(std::isfinite(t.ratio_max) && t.ratio_min > 0 && t.ratio_min <= t.ratio_max,
                "ratio must be (min, max) with 0 < min <= max, as width / height");
  check_tensor_resize(t, check);
  for (const Interpolation interpolation : t.interpolations)
    check_tensor_resize(RandomResizedCrop{.interpolation = interpolation, .of_tensor = t.of_tensor}, check);
}
void check_arguments(const Resize& t, const Check& check) {
  check.require(t.height > 0 && t.width >= 0, "height and width must be > 0");
  check.require(t.max_size == 0 || t.width == 0,
                "max_size should only be passed if size specifies the length of the smaller edge; give one "
                "size or no max_size");
  check.require(t.max_size == 0 || t.max_size > t.height,
                "max_size = " + std::to_string(t.max_size) +
                    " must be strictly greater than the requested size for the smaller edge size = " +
                    std::to_string(t.height));
  check_tensor_resize(t, check);
}
void check_arguments(const CenterCrop& t, const Check& check) { check.positive_size(t.height, t.width); }
void check_arguments(const RandomCrop& t, const Check& check) {
  check.positive_size(t.height, t.width);
  for (const int32_t side : t.padding)
    check.require(side >= 0, "padding must be >= 0; to cut borders off, use CenterCrop");
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
void check_arguments(const Grayscale&, const Check&) {}
void check_arguments(const RandomGrayscale& t, const Check& check) { check.probability(t.p); }
void check_arguments(const RandomRotation& t, const Check& check) {
  check.range("degrees", t.degrees, -Check::kAny, Check::kAny);
  check.center(t.center);
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
}
void check_arguments(const GaussianBlur& t, const Check& check) {
  const auto odd = [](int32_t size) { return size > 0 && size % 2 == 1 && size <= 9999; };
  check.require(odd(t.kernel_width) && odd(t.kernel_height),
                "Kernel size value should be an odd and positive number below 10000");
  check.range("sigma", t.sigma, 0, Check::kAny);
  check.probability(t.p);
  check.require(t.sigma.min > 0, "sigma values should be positive and of the form (min, max)");
}
void check_arguments(const AugmentOp& op, const Check& check) {
  check.probability(op.p);
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
void check_arguments(const AugmentPolicy& t, const Check& check) {
  check.probability(t.p);
  check.require(!t.branches.empty() && t.count >= 0, "needs a branch to draw, and count >= 0");
  check.require(!t.interpolations.empty(), "needs an interpolation");
  for (const Interpolation interpolation : t.interpolations)
    check.require(interpolation <= Interpolation::bicubic, "maps by nearest, bilinear or bicubic");
  double sum = 0;
  int64_t usable = 0;
  for (const AugmentBranch& branch : t.branches) {
    check.require(branch.weight >= 0 && branch.weight <= Check::kAny, "weights must be finite and >= 0");
    sum += branch.weight;
    usable += branch.weight > 0;
    for (const AugmentOp& op : branch.ops) check_arguments(op, check);
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
  check.require(
      t.value.empty() || t.value.size() == 1 || t.value.size() == 3,
      "If value is a sequence, it should have either a single value or 3 (number of input channels)");
}

// Moving whole pixels is the same before and after ToTensor and Normalize; computing or inventing pixels is
// not. A padding of zeros is a black byte before Normalize, and no byte at all behind it.
bool commutes_with_tensor(const PictureSpec& spec, bool normalized) {
  return std::visit(
      Overloaded{[](const HorizontalFlip&) { return true; }, [](const VerticalFlip&) { return true; },
                 [&](const CenterCrop&) { return !normalized; },
                 [&](const RandomCrop& t) {
                   const bool pads = t.pad_if_needed || t.padding != std::array<int32_t, 4>{};
                   const bool black =
                       t.padding_mode == PaddingMode::constant && t.fill == std::array<uint8_t, 3>{};
                   return !pads || t.padding_mode != PaddingMode::constant || (black && !normalized);
                 },
                 [](const auto&) { return false; }},
      spec);
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

Normalize spread_over_channels(Normalize t) {
  if (t.mean.size() == 1) t.mean.resize(3, t.mean[0]);
  if (t.std.size() == 1) t.std.resize(3, t.std[0]);
  return t;
}

}  // namespace

bool Chain::needs_orientation() const {
  return !steps.empty() && std::holds_alternative<ExifTranspose>(steps.front().spec);
}

Chain check_chain(const std::vector<TransformSpec>& specs) {
  Chain chain;
  bool tensor = false;
  for (size_t i = 0; i < specs.size(); ++i) {
    const Check check(specs[i], i);
    check.require(chain.erasing.empty() || std::holds_alternative<RandomErasing>(specs[i]),
                  "stands behind RandomErasing, which must come last; put it before RandomErasing");
    std::visit(
        Overloaded{[&](const ToTensor& t) {
                     check.require(!tensor, "the picture is a tensor already; keep one ToTensor");
                     check.require(t.channels == 1 || t.channels == 3, "a tensor has 1 or 3 channels");
                     tensor = true;
                     chain.to_tensor = t;
                   },
                   [&](const RandomErasing& t) {
                     check_arguments(t, check);
                     check.require(chain.to_tensor.channels == 3, "erases pictures of three channels");
                     check.require(tensor && chain.to_tensor.type != OutputType::u8,
                                   "erases floats, but no float tensor stands before it; put ToTensor() or "
                                   "ToDtype(scale=True) in front of it");
                     chain.erasing.push_back({t, static_cast<uint32_t>(i)});
                   },
                   [&](const Normalize& t) {
                     check.require(
                         tensor,
                         "works on tensors, but no ToTensor stands before it; put ToTensor() in front of it");
                     check.require(chain.to_tensor.type != OutputType::u8,
                                   "Input tensor should be a float tensor. Got torch.uint8; "
                                   "convert with ToTensor() or ToDtype(scale=True) first");
                     check.require(!chain.normalize, "stands twice; fold both into one mean and std");
                     check_normalize(t, check);
                     check.require(chain.to_tensor.channels == 3 || (t.mean.size() == 1 && t.std.size() == 1),
                                   "mean and std must have one value for the one channel");
                     chain.normalize = spread_over_channels(t);
                   },
                   [&](const auto& t) {
                     using T = std::decay_t<decltype(t)>;
                     check.require(!std::is_same_v<T, ExifTranspose> || i == 0,
                                   "turns the stored picture upright, so it must stand first");
                     check_arguments(t, check);
                     check.require(
                         !tensor || commutes_with_tensor(t, chain.normalize.has_value()),
                         "stands behind ToTensor, where its result would differ from the one on pixels; "
                         "put it before ToTensor");
                     chain.steps.push_back({t, static_cast<uint32_t>(i)});
                   }},
        specs[i]);
  }
  if (!tensor)
    throw Error(ErrorKind::invalid_argument,
                "the chain of transforms has no ToTensor, so it gives pictures, not tensors; "
                "end it with ToTensor() (or ToImage() and ToDtype())");
  return chain;
}

}  // namespace millrace::transforms
