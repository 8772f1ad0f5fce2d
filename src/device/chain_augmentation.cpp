#include "device/chain_augmentation.h"

#include <variant>

#include "device/augmentation_builder.h"
#include "millrace/error.h"
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
    const bool black = t.padding_mode == PaddingMode::constant && t.fill == std::array<uint8_t, 3>{};
    if (!black && transforms::padded(at.in, padding) != at.in) return builder.something_else();
    base::Rect box = at.decided->box;  // of the padded picture
    box.left -= padding.left;
    box.top -= padding.top;
    builder.crop(box);
  }
  void operator()(const Frame& t) const {
    const base::Rect box = transforms::frame_box(t, at.in, at.decided);
    const bool black = t.padding_mode == PaddingMode::constant && t.fill == std::array<uint8_t, 3>{};
    const bool pads = box.left < 0 || box.top < 0 || box.right() > at.in.width || box.bottom() > at.in.height;
    if (pads && !black) return builder.something_else();
    builder.crop(box);
  }
  void operator()(const DrawnResize& t) const {
    const base::Rect& size = at.decided->box;
    builder.resize(size.width, size.height, at.decided->interpolation, t.of_tensor);
  }
  void operator()(const RandomPerspective&) const {
    if (at.decided->applied) builder.something_else();
  }
  void operator()(const HorizontalFlip&) const {
    if (at.decided->applied) builder.flip_horizontal();
  }
  void operator()(const VerticalFlip&) const {
    if (at.decided->applied) builder.flip_vertical();
  }
  void operator()(const ExifTranspose&) const {
    const int orientation = at.decided->orientation;
    if (transforms::swaps_axes(orientation)) builder.something_else();
    if (orientation == 2 || orientation == 3) builder.flip_horizontal();
    if (orientation == 3 || orientation == 4) builder.flip_vertical();
  }
  void operator()(const ColorJitter&) const { builder.color_jitter(at.decided->color); }
  void operator()(const PhotometricDistort&) const { builder.something_else(); }
  void operator()(const transforms::Choice&) const {}  // the steps of its branch are in the list
  void operator()(const Grayscale&) const { builder.grayscale(); }
  void operator()(const RandomGrayscale&) const {
    if (at.decided->applied) builder.grayscale();
  }
  void operator()(const RandomRotation&) const { builder.something_else(); }
  void operator()(const RandomAffine&) const { builder.something_else(); }
  void operator()(const GaussianBlur&) const { builder.something_else(); }
  void operator()(const AugmentPolicy&) const { builder.something_else(); }
  void operator()(const AugMix&) const { builder.something_else(); }
  void operator()(const transforms::Crop& t) const { builder.crop(t.box); }
  void operator()(const transforms::BoxResize&) const { builder.something_else(); }
  void operator()(const transforms::PointTable&) const { builder.something_else(); }
};

}  // namespace

std::optional<Augmentation> augmentation_of(const transforms::Chain& chain, transforms::PictureSize stored,
                                            const transforms::SampleParams& params) {
  if (chain.to_tensor.channels != 3) return std::nullopt;
  AugmentationBuilder builder(stored.width, stored.height);
  for (const transforms::Placed& placed : transforms::place_steps(chain, stored, params))
    std::visit(Teller{builder, placed}, placed.step->spec);
  return builder.result();
}

std::string why_not_fused(const transforms::ImagePipeline& pipeline) {
  const transforms::Chain& chain = pipeline.chain();
  if (!pipeline.fixed_shape())
    return "its pictures come out in sizes of their own; let it end in one size, as "
           "RandomResizedCrop((height, width)) does";
  if (!chain.erasing.empty())
    return "RandomErasing works on finished tensors; leave it out, and do it to the batch "
           "(millrace.transforms.batch.RandomErasing)";
  if (chain.noise) return "GaussianNoise works on finished tensors; leave it out, and add it to the batch";
  if (pipeline.output_type() == base::DType::f64)
    return "float64 is made on the CPU only; use float32, or convert the batch";
  try {
    for (int64_t key = 0; key < 32; ++key) {
      const transforms::PictureSize stored =
          key % 2 == 0 ? transforms::PictureSize{4000, 3000} : transforms::PictureSize{3000, 4000};
      const transforms::SampleParams params = pipeline.draw(stored.width, stored.height, 1, {0, 0, key, 0});
      if (!augmentation_of(chain, stored, params))
        return "one pass on the GPU makes a crop, a bilinear or bicubic resize, flips, then ColorJitter, "
               "then Grayscale, in this order, "
               "and this chain has something else";
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace millrace::device
