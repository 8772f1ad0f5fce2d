#include "transforms/placed_steps.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "millrace/error.h"

namespace millrace::transforms {
namespace {

using Kind = OpParams::Kind;

[[noreturn]] void foreign_params(uint32_t op, PictureSize in) {
  throw Error(ErrorKind::invalid_argument,
              "the parameters of transform " + std::to_string(op) + " do not fit a picture of " +
                  std::to_string(in.height) + " x " + std::to_string(in.width) +
                  " pixels (height x width); draw them for this chain and this picture");
}

bool inside(const base::Rect& box, PictureSize size) {
  return box.left >= 0 && box.top >= 0 && box.width > 0 && box.height > 0 &&
         box.width <= size.width - box.left && box.height <= size.height - box.top;
}

// Which kind of entry in SampleParams a step must have.
struct ExpectedKind {
  using Expected = std::optional<Kind>;
  Expected operator()(const RandomResizedCrop&) const { return Kind::resized_crop; }
  Expected operator()(const RandomCrop&) const { return Kind::crop; }
  Expected operator()(const HorizontalFlip&) const { return Kind::flip_horizontal; }
  Expected operator()(const VerticalFlip&) const { return Kind::flip_vertical; }
  Expected operator()(const ExifTranspose&) const { return Kind::orientation; }
  Expected operator()(const ColorJitter&) const { return Kind::color_jitter; }
  Expected operator()(const RandomGrayscale&) const { return Kind::grayscale; }
  Expected operator()(const RandomRotation&) const { return Kind::affine; }
  Expected operator()(const RandomAffine&) const { return Kind::affine; }
  Expected operator()(const GaussianBlur&) const { return Kind::blur; }
  Expected operator()(const AugmentPolicy&) const { return Kind::policy; }
  Expected operator()(const Resize&) const { return std::nullopt; }
  Expected operator()(const CenterCrop&) const { return std::nullopt; }
  Expected operator()(const Grayscale&) const { return std::nullopt; }
  Expected operator()(const Crop&) const { return std::nullopt; }
  Expected operator()(const BoxResize&) const { return std::nullopt; }
  Expected operator()(const PointTable&) const { return std::nullopt; }
};

// Whether the decision makes sense for the step's picture.
struct Fits {
  const OpParams& decided;
  PictureSize in;

  bool operator()(const RandomResizedCrop&) const { return inside(decided.box, in); }
  bool operator()(const RandomCrop& t) const {
    return inside(decided.box, padded(in, padding_of(t, in))) && decided.box.width == t.width &&
           decided.box.height == t.height;
  }
  bool operator()(const ColorJitter&) const {
    const ColorJitterParams& c = decided.color;
    const auto factor = [](double v) { return v >= 0 && v <= 1e9; };
    return factor(c.brightness) && factor(c.contrast) && factor(c.saturation) && std::abs(c.hue) <= 0.5;
  }
  bool operator()(const RandomRotation&) const { return computable(decided.inverse); }
  bool operator()(const RandomAffine&) const { return computable(decided.inverse); }
  bool operator()(const AugmentPolicy&) const {
    return std::all_of(decided.steps.begin(), decided.steps.end(), [](const AugmentStep& step) {
      return computable(step.inverse) && std::abs(step.value) <= 1e9 &&
             (step.kind != AugmentKind::posterize || (step.value >= 0 && step.value <= 8)) &&
             (step.kind != AugmentKind::gaussian_blur || step.value <= 10'000);
    });
  }
  bool operator()(const GaussianBlur&) const { return !decided.applied || decided.sigma > 0; }
  template <class Other>
  bool operator()(const Other&) const {
    return true;
  }

 private:
  // Positions stay finite numbers wherever it is applied.
  static bool computable(const InverseAffine& inverse) {
    return std::all_of(inverse.begin(), inverse.end(), [](double v) { return std::abs(v) < 1e100; });
  }
};

}  // namespace

std::vector<Placed> place_steps(const Chain& chain, PictureSize stored, const SampleParams& params) {
  std::vector<Placed> placed;
  placed.reserve(chain.steps.size());
  PictureSize size = stored;
  size_t next = 0;
  for (const PictureStep& step : chain.steps) {
    const OpParams* decided = nullptr;
    if (const auto kind = std::visit(ExpectedKind{}, step.spec)) {
      if (next == params.ops.size() || params.ops[next].kind != *kind || params.ops[next].op != step.op)
        foreign_params(step.op, size);
      decided = &params.ops[next++];
      if (!std::visit(Fits{*decided, size}, step.spec)) foreign_params(step.op, size);
    }
    const PictureSize out = size_after(step, size, decided);
    placed.push_back({&step, decided, size, out});
    size = out;
  }
  return placed;
}

std::vector<Erasure> place_erasures(const Chain& chain, PictureSize out, const SampleParams& params) {
  std::vector<Erasure> erasures;
  const size_t count = chain.erasing.size();
  for (size_t i = 0; i < count; ++i) {
    const EraseStep& step = chain.erasing[i];
    if (params.ops.size() < count) foreign_params(step.op, out);
    const OpParams& decided = params.ops[params.ops.size() - count + i];
    if (decided.kind != Kind::erase || decided.op != step.op) foreign_params(step.op, out);
    if (!decided.applied || decided.box.width == 0 || decided.box.height == 0)
      continue;  // a drawn rectangle may be empty
    if (!inside(decided.box, out)) foreign_params(step.op, out);
    erasures.push_back({decided.box, &step.spec, decided.noise});
  }
  return erasures;
}

}  // namespace millrace::transforms
