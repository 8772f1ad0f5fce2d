// Noise and erased rectangles in a batch on the CPU reference against the CPU's transforms, to the last bit.
#include <gtest/gtest.h>

#include "chain_batches.h"
#include "millrace/error.h"

namespace millrace::device {
namespace {

const RandomResizedCrop kFinishedCrop{48, 56, 0.3, 1.0, 0.75, 1.33};
const Normalize kNormalize{{0.4, 0.5, 0.6}, {0.2, 0.25, 0.3}};

ToTensor numbers(OutputType type = OutputType::f32, bool multiply = true) {
  ToTensor made;
  made.type = type;
  made.multiply = multiply;
  return made;
}

RandomErasing erasing(std::vector<double> value) {
  RandomErasing made;
  made.p = 0.9;
  made.value = std::move(value);
  return made;
}

TEST(FinishedNumbers, ErasedRectangles) {
  for (const auto type : {OutputType::f32, OutputType::f16, OutputType::bf16})
    for (const auto& value : {std::vector<double>{0.3}, {1.5, -2, 1e-3}, {}}) {
      EXPECT_EQ(compare_numbers({kFinishedCrop, HorizontalFlip{}, numbers(type), erasing(value)}).on_device,
                150);
      EXPECT_EQ(compare_numbers({kFinishedCrop, numbers(type), erasing(value), erasing({7}), erasing({})})
                    .on_device,
                150)
          << "one over the other";
    }
  RandomErasing several = erasing({});
  several.count_min = 1, several.count_max = 5;
  EXPECT_EQ(compare_numbers({kFinishedCrop, numbers(), several}, 200).on_device, 200);
  several.per_channel = true;
  EXPECT_EQ(
      compare_numbers({kFinishedCrop, Grayscale{}, RandomRotation{{-9, 9}}, numbers(), several}).on_device,
      150);
}

TEST(FinishedNumbers, Noise) {
  for (const bool clip : {false, true})
    for (const bool multiply : {false, true}) {
      const GaussianNoise noise{0.1, 0.3, clip};
      const ToTensor to_tensor = numbers(OutputType::f32, multiply);
      EXPECT_EQ(compare_numbers({kFinishedCrop, to_tensor, noise}).on_device, 150);
      EXPECT_EQ(compare_numbers({kFinishedCrop, HorizontalFlip{}, to_tensor, noise, kNormalize}).on_device,
                150);
      EXPECT_EQ(compare_numbers({kFinishedCrop, to_tensor, noise, kNormalize, erasing({})}, 250).on_device,
                250)
          << "several launches";
    }
}

TEST(FinishedNumbers, WhatDoesNotFitIsRefused) {
  RandomPicture picture(20, 10, 1);
  const std::vector<DecodedPicture> decoded(2, {picture.pixels.data(), 20, 10, 80, 4});
  std::vector<Augmentation> all(2);
  for (Augmentation& a : all) a.crop = {0, 0, 20, 10}, a.width = 20, a.height = 10;
  std::vector<uint8_t> out(2 * 600 * 4);
  const auto refusal = [&](base::DType type) {
    std::vector<int64_t> workspace(fused_workspace_bytes(all, 10, 20) / 8 + 1);
    try {
      fused_augment(decoded, all, {}, {}, {out.data(), type, 2, 3, 10, 20, false}, workspace.data(), {});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  all[1].numbers.boxes.push_back({{3, 4, 5, 6}, {1, 2, 3}});
  EXPECT_EQ(refusal(base::DType::f16), "");
  EXPECT_NE(refusal(base::DType::u8).find("picture 1: rectangles are erased of floats"), std::string::npos);
  all[1].numbers.boxes[0].box.width = 18;
  EXPECT_NE(refusal(base::DType::f32).find("inside its picture"), std::string::npos);
  all[1].numbers.boxes[0] = {{3, 4, 5, 6}, {1}};
  EXPECT_NE(refusal(base::DType::f32).find("three values or none"), std::string::npos);
  all[1].numbers.boxes.clear();
  all[1].numbers.noise = FinishedNumbers::Noise{};
  EXPECT_EQ(refusal(base::DType::f32), "");
  EXPECT_NE(refusal(base::DType::f16).find("float32"), std::string::npos);
  all[1].numbers.noise->before_normalize = true;
  EXPECT_NE(refusal(base::DType::f32).find("all pictures or in none"), std::string::npos);
}

}  // namespace
}  // namespace millrace::device
