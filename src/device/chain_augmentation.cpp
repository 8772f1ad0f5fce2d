#include "device/chain_augmentation.h"

#include "device/augmentation_builder.h"
#include "millrace/error.h"
#include "transforms/placed_steps.h"

namespace millrace::device {

std::optional<Augmentation> augmentation_of(const transforms::Chain& chain, transforms::PictureSize stored,
                                            const transforms::SampleParams& params) {
  if (chain.to_tensor.channels != 3) return std::nullopt;
  AugmentationBuilder builder(stored.width, stored.height);
  transforms::PictureSteps steps;
  transforms::place_steps(chain, stored, params, steps);
  for (const transforms::PictureStep& step : steps) builder.take(step);
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
