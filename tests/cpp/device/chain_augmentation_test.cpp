// Chains with colours, through the CPU transforms and through the fused augmentation with the same decisions:
// the same pixels.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "device/chain_augmentation.h"
#include "test_images.h"
#include "transforms/draws.h"
#include "transforms/image_pipeline.h"

namespace millrace::device {
namespace {

constexpr int32_t kWidth = 131, kHeight = 170;

std::vector<uint8_t> picture() {  // RGBX
  std::vector<uint8_t> bytes(static_cast<size_t>(kWidth) * kHeight * 4);
  std::mt19937 random(9);
  for (int32_t y = 0; y < kHeight; ++y)
    for (int32_t x = 0; x < kWidth; ++x)
      for (int c = 0; c < 3; ++c)
        bytes[(static_cast<size_t>(y) * kWidth + x) * 4 + c] = static_cast<uint8_t>(
            (x / 9 + y / 7 + c) % 3 * 70 + x * 30 / kWidth + static_cast<int>(random() % 20));
  return bytes;
}

ColorJitter colours() {
  ColorJitter j;
  j.brightness = Range{0.6, 1.4};
  j.contrast = Range{0.6, 1.4};
  j.saturation = Range{0.6, 1.4};
  j.hue = Range{-0.1, 0.1};
  return j;
}

// How many of 40 keys the fused augmentation can do; each of them has the CPU's pixels.
int fused_of_40(const std::vector<TransformSpec>& specs) {
  std::vector<TransformSpec> all = specs;
  ToTensor bytes;
  bytes.type = OutputType::u8;
  all.emplace_back(bytes);
  const auto pipeline = transforms::ImagePipeline::create(all);
  const transforms::Chain chain = transforms::check_chain(all);
  std::vector<uint8_t> pixels = picture();
  int fused = 0;
  for (int64_t index = 0; index < 40; ++index) {
    const transforms::SampleParams drawn =
        pipeline->draw(kWidth, kHeight, 1 + static_cast<int>(index % 4), {5, 0, index, 0});
    const auto augmentation = augmentation_of(chain, {kWidth, kHeight}, drawn);
    if (!augmentation) continue;
    ++fused;
    const auto scratch = transforms::ImagePipeline::make_scratch();
    const auto need = pipeline->plan(kWidth, kHeight, drawn, *scratch);
    const base::ImageView region{
        pixels.data() + (static_cast<size_t>(need.region.top) * kWidth + need.region.left) * 4,
        need.region.width, need.region.height, kWidth * 4};
    std::vector<uint8_t> wanted(static_cast<size_t>(3) * need.shape.height * need.shape.width), got = wanted;
    pipeline->apply(region, *scratch, wanted.data());
    const std::vector<Augmentation> one{*augmentation};
    std::vector<int64_t> workspace(fused_workspace_bytes(one, need.shape.height, need.shape.width) / 8 + 1);
    fused_augment(std::vector<DecodedPicture>{{pixels.data(), kWidth, kHeight, kWidth * 4, 4}}, one, {}, {},
                  {got.data(), base::DType::u8, 1, 3, need.shape.height, need.shape.width, false},
                  workspace.data(), {});
    EXPECT_EQ(got, wanted) << "key " << index;
  }
  return fused;
}

TEST(ChainAugmentation, TheSameDecisionsGiveTheSamePixels) {
  RandomCrop cut;
  cut.height = 90, cut.width = 100;
  cut.padding = {10, 10, 10, 10};
  EXPECT_EQ(fused_of_40({RandomResizedCrop{48, 56}, HorizontalFlip{}, colours(), RandomGrayscale{0.3}}), 40);
  EXPECT_EQ(fused_of_40({Resize{96, 0}, CenterCrop{80, 80}, colours()}), 40);
  EXPECT_EQ(fused_of_40({Resize{96, 0}, CenterCrop{80, 80}, Grayscale{}}), 40);
  EXPECT_EQ(fused_of_40({VerticalFlip{}, cut, HorizontalFlip{}, colours(), RandomGrayscale{}}), 40);
  EXPECT_EQ(
      fused_of_40({ExifTranspose{}, RandomResizedCrop{48, 56, 0.3, 1.0, 0.75, 1.3, Interpolation::bicubic},
                   HorizontalFlip{}}),
      40);
  EXPECT_EQ(fused_of_40({RandomResizedCrop{48, 56, 0.3, 1.0, 0.75, 1.3, Interpolation::bicubic, true},
                         HorizontalFlip{}}),
            40);
  EXPECT_EQ(fused_of_40({Resize{96, 0, 0, Interpolation::bilinear, true}, CenterCrop{80, 80}}), 40);
  EXPECT_EQ(fused_of_40({RandomRotation{{-10, 10}}, RandomResizedCrop{48, 56}}), 0);
  EXPECT_EQ(fused_of_40({colours(), RandomResizedCrop{48, 56}}), 0);
}

}  // namespace
}  // namespace millrace::device
