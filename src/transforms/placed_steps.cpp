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
  Expected operator()(const Frame& t) const { return decides(t) ? Expected(Kind::frame) : std::nullopt; }
  Expected operator()(const DrawnResize&) const { return Kind::resize; }
  Expected operator()(const RandomPerspective&) const { return Kind::perspective; }
  Expected operator()(const HorizontalFlip&) const { return Kind::flip_horizontal; }
  Expected operator()(const VerticalFlip&) const { return Kind::flip_vertical; }
  Expected operator()(const ExifTranspose&) const { return Kind::orientation; }
  Expected operator()(const ColorJitter&) const { return Kind::color_jitter; }
  Expected operator()(const PhotometricDistort&) const { return Kind::distort; }
  Expected operator()(const Choice&) const { return Kind::choice; }
  Expected operator()(const RandomGrayscale&) const { return Kind::grayscale; }
  Expected operator()(const RandomRotation&) const { return Kind::affine; }
  Expected operator()(const RandomAffine&) const { return Kind::affine; }
  Expected operator()(const GaussianBlur&) const { return Kind::blur; }
  Expected operator()(const AugmentPolicy&) const { return Kind::policy; }
  Expected operator()(const AugMix&) const { return Kind::mix; }
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
  bool operator()(const Frame& t) const {
    const base::Rect& box = decided.box;
    if (t.kind == Frame::Kind::anywhere) return box.width == t.width && box.height == t.height;
    return t.kind != Frame::Kind::zoom_out || !decided.applied ||
           inside({-box.left, -box.top, in.width, in.height}, {box.width, box.height});
  }
  bool operator()(const DrawnResize&) const { return decided.box.width > 0 && decided.box.height > 0; }
  bool operator()(const RandomPerspective&) const { return computable(decided.perspective.inverse); }
  bool operator()(const ColorJitter&) const { return sensible(decided.color); }
  bool operator()(const PhotometricDistort&) const { return sensible(decided.color); }
  bool operator()(const Choice& t) const { return decided.chosen < t.branches->lists.size(); }
  bool operator()(const RandomRotation&) const { return computable(decided.inverse); }
  bool operator()(const RandomAffine&) const { return computable(decided.inverse); }
  bool operator()(const AugmentPolicy&) const { return computable(decided.steps); }
  bool operator()(const AugMix&) const {
    const auto share = [](float v) { return v >= 0 && v <= 1.001f; };
    return share(decided.mix.share) && std::all_of(decided.mix.copies.begin(), decided.mix.copies.end(),
                                                   [&](const MixParams::Copy& copy) {
                                                     return share(copy.share) && computable(copy.steps);
                                                   });
  }

  bool operator()(const GaussianBlur&) const { return !decided.applied || decided.sigma > 0; }
  template <class Other>
  bool operator()(const Other&) const {
    return true;
  }

 private:
  static bool sensible(const ColorJitterParams& c) {
    const auto factor = [](double v) { return v >= 0 && v <= 1e9; };
    return factor(c.brightness) && factor(c.contrast) && factor(c.saturation) && std::abs(c.hue) <= 0.5;
  }
  // Positions stay finite numbers wherever it is applied.
  static bool computable(const std::vector<AugmentStep>& steps) {
    return std::all_of(steps.begin(), steps.end(), [](const AugmentStep& step) {
      return computable(step.inverse) && std::abs(step.value) <= 1e9 && is_of_policies(step.kind) &&
             (step.kind != AugmentKind::posterize || (step.value >= 0 && step.value <= 8)) &&
             (step.kind != AugmentKind::gaussian_blur || step.value <= 10'000);
    });
  }
  template <size_t kCount>
  static bool computable(const std::array<double, kCount>& inverse) {
    return std::all_of(inverse.begin(), inverse.end(), [](double v) { return std::abs(v) < 1e100; });
  }
};

class Placer {
 public:
  Placer(const SampleParams& params, std::vector<Placed>& placed) : params_(params), placed_(placed) {}

  PictureSize place(const std::vector<PictureStep>& steps, PictureSize size) {
    for (const PictureStep& step : steps) {
      const OpParams* decided = nullptr;
      if (const auto kind = std::visit(ExpectedKind{}, step.spec)) {
        if (next_ == params_.ops.size() || params_.ops[next_].kind != *kind ||
            params_.ops[next_].op != step.op)
          foreign_params(step.op, size);
        decided = &params_.ops[next_++];
        if (!std::visit(Fits{*decided, size}, step.spec)) foreign_params(step.op, size);
      }
      if (const Choice* choice = std::get_if<Choice>(&step.spec)) {
        size = place(choice->branches->lists[decided->chosen], size);
        continue;
      }
      const PictureSize out = size_after(step, size, decided);
      placed_.push_back({&step, decided, size, out, static_cast<uint32_t>(placed_.size())});
      size = out;
    }
    return size;
  }

 private:
  const SampleParams& params_;
  std::vector<Placed>& placed_;
  size_t next_ = 0;
};

}  // namespace

std::vector<Placed> place_steps(const Chain& chain, PictureSize stored, const SampleParams& params) {
  std::vector<Placed> placed;
  placed.reserve(chain.steps.size());
  Placer(params, placed).place(chain.steps, stored);
  return placed;
}

AddedNoise place_noise(const Chain& chain, const SampleParams& params) {
  if (!chain.noise) return {};
  const auto decided = std::find_if(params.ops.rbegin(), params.ops.rend(),
                                    [](const OpParams& op) { return op.kind == Kind::noise; });
  if (decided == params.ops.rend() || decided->op != chain.noise->op) foreign_params(chain.noise->op, {});
  return {&chain.noise->spec, chain.noise_first && chain.normalize ? &*chain.normalize : nullptr,
          decided->noise};
}

std::vector<Erasure> place_erasures(const Chain& chain, PictureSize out, const SampleParams& params) {
  std::vector<Erasure> erasures;
  const size_t count = chain.erasing.size();
  for (size_t i = 0; i < count; ++i) {
    const EraseStep& step = chain.erasing[i];
    if (params.ops.size() < count) foreign_params(step.op, out);
    const OpParams& decided = params.ops[params.ops.size() - count + i];
    if (decided.kind != Kind::erase || decided.op != step.op) foreign_params(step.op, out);
    if (!decided.applied) continue;
    const auto add = [&](const base::Rect& box, uint64_t number) {
      if (box.width == 0 || box.height == 0) return;  // a drawn rectangle may be empty
      if (!inside(box, out)) foreign_params(step.op, out);
      erasures.push_back({box, &step.spec, decided.noise + number});
    };
    add(decided.box, 0);
    for (size_t more = 0; more < decided.more_boxes.size(); ++more) add(decided.more_boxes[more], more + 1);
  }
  return erasures;
}

}  // namespace millrace::transforms
