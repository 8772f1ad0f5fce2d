#include "device/chain_augmentation.h"

#include <utility>
#include <variant>

#include "device/augmentation_builder.h"
#include "millrace/error.h"
#include "transforms/blur_kernels.h"
#include "transforms/placed_steps.h"

namespace millrace::device {
namespace {

struct Teller {
  AugmentationBuilder& builder;
  const transforms::Placed& at;

  void operator()(const RandomResizedCrop& t) const {
    builder.crop(at.decided->box);
    builder.resize(t.width, t.height, at.decided->interpolation, t.of_tensor);
  }
  void operator()(const Resize& t) const {
    const transforms::PictureSize size = transforms::resized_size(t, at.in);
    builder.resize(size.width, size.height, t.interpolation, t.of_tensor);
  }
  void operator()(const CenterCrop& t) const { builder.crop(transforms::center_crop_box(t, at.in)); }
  void operator()(const RandomCrop& t) const {
    const transforms::Padding padding = transforms::padding_of(t, at.in);
    base::Rect box = at.decided->box;  // of the padded picture
    box.left -= padding.left;
    box.top -= padding.top;
    builder.crop(box, t.padding_mode, t.fill);
  }
  void operator()(const Frame& t) const {
    builder.crop(transforms::frame_box(t, at.in, at.decided), t.padding_mode, t.fill);
  }
  void operator()(const DrawnResize& t) const {
    const base::Rect& size = at.decided->box;
    builder.resize(size.width, size.height, at.decided->interpolation, t.of_tensor);
  }
  void operator()(const RandomPerspective& t) const {
    if (at.decided->applied)
      builder.add(PerspectiveStep{at.decided->perspective.inverse, t.interpolation, t.fill});
  }
  void operator()(const HorizontalFlip&) const {
    if (at.decided->applied) builder.flip_horizontal();
  }
  void operator()(const VerticalFlip&) const {
    if (at.decided->applied) builder.flip_vertical();
  }
  void operator()(const ExifTranspose&) const {
    const int orientation = at.decided->orientation;
    if (transforms::swaps_axes(orientation)) builder.transpose();
    const auto is_one_of = [orientation](auto... values) { return ((orientation == values) || ...); };
    if (is_one_of(2, 3, 6, 7)) builder.flip_horizontal();
    if (is_one_of(3, 4, 7, 8)) builder.flip_vertical();
  }
  void operator()(const ColorJitter&) const { builder.color_jitter(at.decided->color); }
  void operator()(const PhotometricDistort&) const {
    builder.color_jitter(at.decided->color);
    if (at.decided->permutation != 0)
      builder.add(RecolorStep{AugmentKind::permute, double(at.decided->permutation)});
  }
  void operator()(const transforms::Choice&) const {}  // the steps of its branch are in the list
  void operator()(const Grayscale&) const { builder.grayscale(); }
  void operator()(const RandomGrayscale&) const {
    if (at.decided->applied) builder.grayscale();
  }
  void operator()(const RandomRotation& t) const { map(t.interpolation, t.fill); }
  void operator()(const RandomAffine& t) const { map(t.interpolation, t.fill); }
  void operator()(const GaussianBlur& t) const {
    if (!at.decided->applied) return;
    BlurStep step;
    transforms::weigh_blur(at.decided->sigma, t.kernel_width, step.x);
    transforms::weigh_blur(at.decided->sigma, t.kernel_height, step.y);
    builder.add(std::move(step));
  }
  void operator()(const AugmentPolicy& t) const {
    for (const transforms::AugmentStep& step : at.decided->steps)
      if (auto made = picture_step(step, t.fill)) builder.add(std::move(*made));
  }
  void operator()(const AugMix& t) const { builder.add(MixStep{at.decided->mix, t.policy.fill, t.blended}); }
  void operator()(const transforms::Crop& t) const { builder.crop(t.box); }
  void operator()(const transforms::BoxResize&) const { builder.something_else(); }
  void operator()(const transforms::PointTable&) const { builder.something_else(); }

  void map(Interpolation interpolation, const std::array<uint8_t, 3>& fill) const {
    if (at.decided->inverse != transforms::InverseAffine{1, 0, 0, 0, 1, 0})
      builder.add(MapStep{at.decided->inverse, interpolation, fill});
  }
};

}  // namespace

std::optional<Augmentation> augmentation_of(const transforms::Chain& chain, transforms::PictureSize stored,
                                            const transforms::SampleParams& params) {
  if (chain.to_tensor.channels != 3) return std::nullopt;
  AugmentationBuilder builder(stored.width, stored.height);
  for (const transforms::Placed& placed : transforms::place_steps(chain, stored, params))
    std::visit(Teller{builder, placed}, placed.step->spec);
  transforms::NumberSteps numbers;
  numbers.noise = transforms::place_noise(chain, params);
  numbers.erasures = transforms::place_erasures(chain, {builder.width(), builder.height()}, params);
  if (!numbers.empty()) builder.numbers(finished_numbers(numbers, chain));
  return builder.result();
}

std::string why_not_fused(const transforms::ImagePipeline& pipeline) {
  const transforms::Chain& chain = pipeline.chain();
  if (!pipeline.fixed_shape())
    return "its pictures come out in sizes of their own; let it end in one size, as "
           "RandomResizedCrop((height, width)) does";
  if (pipeline.output_type() == base::DType::f64)
    return "float64 is made on the CPU only; use float32, or convert the batch";
  try {
    for (int64_t key = 0; key < 32; ++key) {
      const transforms::PictureSize stored =
          key % 2 == 0 ? transforms::PictureSize{4000, 3000} : transforms::PictureSize{3000, 4000};
      const transforms::SampleParams params = pipeline.draw(stored.width, stored.height, 1, {0, 0, key, 0});
      if (!augmentation_of(chain, stored, params))
        return "the GPU makes one resize of the photo, with nothing but crops and flips before it, and no "
               "picture behind it of more than 8 times the result's pixels, and this chain has something "
               "else";
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace millrace::device
