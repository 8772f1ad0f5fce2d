// Steps behind a resize on the CPU reference against the CPU's transforms, to the last bit: every operation
// of a policy alone, whole policies, AugMix, maps, blurs, colours in any order, paddings, and turned
// pictures.
#include <gtest/gtest.h>

#include "chain_batches.h"
#include "device/picture_passes.h"
#include "millrace/error.h"

namespace millrace::device {
namespace {

const RandomResizedCrop kCrop{48, 56, 0.3, 1.0, 0.75, 1.33};

AugmentPolicy policy_of(std::vector<AugmentOp> ops) {
  AugmentPolicy policy;
  policy.branches.push_back({1, std::move(ops)});
  policy.interpolations = {Interpolation::nearest, Interpolation::bilinear, Interpolation::bicubic};
  policy.fill = {128, 7, 201};
  return policy;
}

AugmentOp op_of(AugmentKind kind) {
  AugmentOp op{kind};
  op.is_signed = is_map(kind);
  switch (kind) {
    case AugmentKind::shear_x:
    case AugmentKind::shear_y: op.values = {0.1, 0.3, 0.93}; break;
    case AugmentKind::translate_x:
    case AugmentKind::translate_y: op.values = {1, 7.4, 13, 0.5, 400}; break;
    case AugmentKind::rotate: op.values = {3, 30, 90, 180, 135.5}; break;
    case AugmentKind::brightness:
    case AugmentKind::contrast:
    case AugmentKind::saturation:
    case AugmentKind::sharpness: op.values = {0, 0.1, 0.73, 1, 1.9, 2.6}; break;
    case AugmentKind::posterize: op.values = {1, 2, 3, 4, 6, 8}; break;
    case AugmentKind::solarize: op.values = {0, 1, 100.5, 128, 255, 256}; break;
    case AugmentKind::solarize_add: op.values = {0, 30, 110, -20}; break;
    case AugmentKind::gaussian_blur: op.values = {0, 0.1, 0.7, 1.3, 2, 9.5, 60}; break;
    default: break;
  }
  return op;
}

std::vector<AugmentKind> all_kinds() {
  std::vector<AugmentKind> kinds;
  for (int k = 0; k <= static_cast<int>(AugmentKind::gaussian_blur); ++k)
    if (const auto kind = static_cast<AugmentKind>(k); is_of_policies(kind)) kinds.push_back(kind);
  return kinds;
}

AugmentPolicy whole_policy(int32_t count) {
  AugmentPolicy policy = policy_of({});
  policy.branches.clear();
  for (const AugmentKind kind : all_kinds()) policy.branches.push_back({1, {op_of(kind)}});
  policy.count = count;
  return policy;
}

ColorJitter jitter(double p = 1) {
  ColorJitter j;
  j.brightness = Range{0.6, 1.4};
  j.contrast = Range{0.6, 1.4};
  j.saturation = Range{0.2, 1.8};
  j.hue = Range{-0.3, 0.3};
  j.p = p;
  return j;
}

RandomCrop padded_crop(PaddingMode mode) {
  RandomCrop cut;
  cut.height = 44, cut.width = 40;
  cut.padding = {9, 4, 11, 30};
  cut.pad_if_needed = true;
  cut.fill = {9, 99, 199};
  cut.padding_mode = mode;
  return cut;
}

constexpr PaddingMode kModes[] = {PaddingMode::constant, PaddingMode::edge, PaddingMode::reflect,
                                  PaddingMode::symmetric};

TEST(PictureSteps, EveryOperationOfAPolicy) {
  for (const AugmentKind kind : all_kinds())
    for (const auto geometry : {AugmentPolicy::Geometry::torchvision, AugmentPolicy::Geometry::pillow}) {
      SCOPED_TRACE(static_cast<int>(kind));
      AugmentPolicy policy = policy_of({op_of(kind)});
      policy.geometry = geometry;
      const Compared result = compare({kCrop, HorizontalFlip{}, policy}, 240);
      EXPECT_EQ(result.on_device, 240);
      const auto& fused = transforms::kColorKinds;  // each once, by the kernel's jitter
      if (std::find(fused.begin(), fused.end(), kind) != fused.end()) {
        EXPECT_EQ(result.with_steps, 0);
        EXPECT_GT(compare({kCrop, HorizontalFlip{}, policy, policy}, 240).with_steps, 150);
      } else if (kind != AugmentKind::identity) {
        EXPECT_GT(result.with_steps, 150);
      }
      if (!is_map(kind)) break;
    }
}

TEST(PictureSteps, WholePolicies) {
  EXPECT_EQ(compare({kCrop, HorizontalFlip{}, whole_policy(2)}, 400).on_device, 400);
  EXPECT_EQ(compare({kCrop, whole_policy(9)}, 200).on_device, 200);
  // Before a crop, of pictures that were not resized: steps of different sizes in one batch.
  EXPECT_EQ(compare({whole_policy(3), CenterCrop{40, 40}}, 200, 41, 90).on_device, 200);
  EXPECT_EQ(compare({Resize{60, 0}, whole_policy(2), padded_crop(PaddingMode::reflect), HorizontalFlip{},
                     VerticalFlip{}, jitter()},
                    200)
                .on_device,
            200);
}

TEST(PictureSteps, AugMixes) {
  for (const bool blended : {false, true}) {
    AugMix mix{whole_policy(1)};
    mix.blended = blended;
    EXPECT_EQ(compare({kCrop, HorizontalFlip{}, mix}, 200).on_device, 200);
    EXPECT_EQ(compare({kCrop, jitter(0.5), mix, whole_policy(1), mix}, 100).on_device, 100);
    mix.width = 1, mix.depth = 1;
    mix.policy = policy_of({op_of(AugmentKind::solarize)});  // of the picture itself, behind another change
    EXPECT_EQ(compare({kCrop, whole_policy(1), Grayscale{}, mix}, 100).on_device, 100);
    mix.policy = policy_of({op_of(AugmentKind::identity)});
    EXPECT_EQ(compare({kCrop, mix}, 50).on_device, 50);
  }
}

TEST(PictureSteps, RotationsAndAffineMaps) {
  for (const auto interpolation : {Interpolation::nearest, Interpolation::bilinear, Interpolation::bicubic}) {
    RandomRotation turn{{-180, 180}, interpolation, std::nullopt, {1, 2, 3}};
    RandomAffine map{{-40, 40}};
    map.translate = std::array<double, 2>{0.2, 0.3};
    map.scale = Range{0.5, 1.7};
    map.shear_x = {-20, 20}, map.shear_y = {-10, 10};
    map.interpolation = interpolation;
    map.fill = {250, 5, 77};
    RandomAffine scale{{0, 0}};
    scale.scale = Range{0.3, 2.2};
    scale.interpolation = interpolation;
    EXPECT_EQ(compare({kCrop, turn}, 150).with_steps, 150);
    turn.center = std::array<double, 2>{3, 50.5};
    EXPECT_EQ(compare({kCrop, VerticalFlip{}, map, turn}, 150).with_steps, 150);
    EXPECT_EQ(compare({kCrop, scale, scale}, 150).with_steps, 150);
    EXPECT_EQ(compare({Resize{64, 0}, turn, CenterCrop{50, 60}}, 150).with_steps, 150);
  }
}

TEST(PictureSteps, TorchvisionsBlur) {
  EXPECT_EQ(compare({kCrop, GaussianBlur{23, 3, {0.1, 2.0}}}, 150).with_steps, 150);
  EXPECT_EQ(compare({kCrop, GaussianBlur{1, 95, {0.5, 30}}}, 100).with_steps, 100);
  EXPECT_GT(
      compare({kCrop, jitter(0.8), RandomGrayscale{0.2}, GaussianBlur{5, 7, {0.1, 2}, 0.5}}, 200).with_steps,
      50);
}

TEST(PictureSteps, ColoursInAnyOrderAndPlace) {
  EXPECT_EQ(compare({kCrop, Grayscale{}, jitter()}, 150).on_device, 150);
  EXPECT_EQ(compare({kCrop, jitter(), jitter(), Grayscale{}, VerticalFlip{}}, 150).on_device, 150);
  EXPECT_EQ(
      compare({Resize{60, 0}, jitter(), HorizontalFlip{}, CenterCrop{48, 56}, jitter(0.5)}, 150).on_device,
      150);
  EXPECT_EQ(compare({RandomGrayscale{0.5}, jitter(), CenterCrop{24, 20}}, 150, 24, 30).on_device, 150);
}

TEST(PictureSteps, Paddings) {
  for (const PaddingMode mode : kModes) {
    EXPECT_EQ(compare({HorizontalFlip{}, padded_crop(mode), VerticalFlip{}}, 200).on_device, 200);
    EXPECT_EQ(compare({Resize{31, 0}, padded_crop(mode), jitter(0.5)}, 150, 24, 40).on_device, 150);
    EXPECT_EQ(compare({kCrop, jitter(), padded_crop(mode)}, 100).on_device, 100);
    RandomCrop far = padded_crop(mode);  // a part of the padding alone may be seen
    far.height = far.width = 7;
    EXPECT_EQ(compare({HorizontalFlip{}, far}, 300, 14, 17).on_device, 300);
  }
  EXPECT_EQ(compare({CenterCrop{30, 50}, CenterCrop{60, 40}, HorizontalFlip{}}, 100, 20, 70).on_device, 100);
  EXPECT_EQ(compare({Resize{31, 0}, CenterCrop{20, 60}, CenterCrop{60, 70}}, 100).on_device, 100);
}

TEST(PictureSteps, TurnedPictures) {
  const RandomResizedCrop tall{70, 20, 0.3, 1.0, 0.75, 1.33, Interpolation::bicubic};
  EXPECT_EQ(compare({ExifTranspose{}, tall, HorizontalFlip{}}, 200).on_device, 200);
  EXPECT_EQ(compare({ExifTranspose{}, kCrop, VerticalFlip{}, jitter(), RandomGrayscale{0.3}}, 200).on_device,
            200);
  EXPECT_EQ(
      compare({ExifTranspose{}, Resize{40, 0, 0, Interpolation::bilinear, true}, CenterCrop{36, 30}}, 200)
          .on_device,
      200);
  EXPECT_EQ(compare({ExifTranspose{}, Resize{25, 0}, CenterCrop{30, 34}}, 200, 20, 200).on_device, 200);
  EXPECT_EQ(compare({ExifTranspose{}, CenterCrop{50, 20}, whole_policy(2)}, 200).on_device, 200);
  EXPECT_EQ(compare({ExifTranspose{}, padded_crop(PaddingMode::edge), whole_policy(1)}, 200).on_device, 200);
}

// One row, one column, one pixel.
TEST(PictureSteps, TinyPictures) {
  for (const auto& [height, width] : {std::pair{1, 9}, {9, 1}, {1, 1}, {2, 3}}) {
    const RandomResizedCrop small{height, width};
    AugMix mix{whole_policy(1)};
    EXPECT_EQ(compare({small, whole_policy(4)}, 200, 1, 12).on_device, 200);
    EXPECT_EQ(compare({small, mix, jitter(), GaussianBlur{1, 1}}, 60, 1, 12).on_device, 60);
  }
}

TEST(PictureSteps, Perspectives) {
  for (const auto interpolation : {Interpolation::nearest, Interpolation::bilinear, Interpolation::bicubic}) {
    const RandomPerspective view{0.7, 0.9, interpolation, {3, 250, 77}};
    EXPECT_GT(compare({kCrop, view}, 150).with_steps, 120);
    EXPECT_EQ(compare({kCrop, HorizontalFlip{}, view, jitter(), VerticalFlip{}, view}, 100).on_device, 100);
    EXPECT_EQ(compare({Resize{64, 0}, view, CenterCrop{50, 60}}, 100).on_device, 100);
  }
}

TEST(PictureSteps, PhotometricDistortions) {
  const PhotometricDistort much{{0.3, 1.9}, {0, 2}, {0, 2}, {-0.5, 0.5}, 0.8};
  EXPECT_GT(compare({kCrop, much}, 300).with_steps, 150);
  EXPECT_EQ(compare({kCrop, much, whole_policy(1), much}, 200).on_device, 200);
}

constexpr Interpolation kFilters[] = {Interpolation::bilinear, Interpolation::bicubic, Interpolation::lanczos,
                                      Interpolation::box, Interpolation::hamming};

TEST(PictureSteps, AllFilters) {
  for (const Interpolation filter : kFilters) {
    SCOPED_TRACE(static_cast<int>(filter));
    const RandomResizedCrop crop{48, 56, 0.1, 1.0, 0.5, 2.0, filter};
    EXPECT_EQ(compare({crop, HorizontalFlip{}, VerticalFlip{}}, 150, 10, 200).on_device, 150);
    EXPECT_EQ(compare({ExifTranspose{}, Resize{40, 0, 0, filter}, CenterCrop{36, 30}, jitter()}, 150, 20, 150)
                  .on_device,
              150);
  }
}

TEST(PictureSteps, SeveralResizes) {
  for (const Interpolation filter : kFilters) {
    SCOPED_TRACE(static_cast<int>(filter));
    const RandomResizedCrop again{40, 44, 0.3, 1.0, 0.75, 1.33, filter};
    EXPECT_EQ(compare({kCrop, again}, 150).on_device, 150);
    EXPECT_EQ(compare({HorizontalFlip{}, VerticalFlip{}, again, HorizontalFlip{}}, 100).on_device, 100);
    EXPECT_EQ(compare({Resize{60, 0}, HorizontalFlip{}, jitter(), again, VerticalFlip{}}, 100).on_device,
              100);
    EXPECT_EQ(compare({jitter(), Resize{48, 90, 0, filter}, CenterCrop{40, 50}}, 100).on_device, 100);
    EXPECT_EQ(compare({kCrop, Resize{9, 100, 0, filter}, Resize{48, 9, 0, filter}}, 100).on_device, 100);
    EXPECT_EQ(compare({kCrop, Resize{48, 20, 0, filter}, Resize{90, 20, 0, filter}}, 60).on_device, 60);
  }
  for (const Interpolation filter : {Interpolation::bilinear, Interpolation::bicubic})
    EXPECT_EQ(compare({kCrop, Resize{30, 70, 0, filter, true}}, 100).on_device, 100) << "as of tensors";
  EXPECT_EQ(compare({RandomRotation{{-10, 10}}, kCrop}, 20, 50, 90).on_device, 20);
  EXPECT_EQ(compare({Resize{40, 60, 0, Interpolation::nearest}, HorizontalFlip{}}, 100).with_steps, 100);
  EXPECT_EQ(compare({kCrop, Resize{77, 23, 0, Interpolation::nearest}, jitter()}, 100).on_device, 100);
}

TEST(PictureSteps, Choices) {
  auto branches = std::make_shared<ChoiceBranches>();
  branches->lists = {{HorizontalFlip{1}, whole_policy(1)}, {}, {RandomPerspective{0.5, 1}, jitter()}};
  const RandomChoice choice{{1, 1, 2}, branches};
  EXPECT_EQ(compare({kCrop, choice, VerticalFlip{}}, 200).on_device, 200);
}

TEST(PictureSteps, WhatIsLeftToTheCpu) {
  EXPECT_EQ(compare({jitter(), kCrop}, 20, 200, 250).on_device, 0) << "too large a picture";
  EXPECT_EQ(compare({jitter(), CenterCrop{10, 10}}, 20, 60, 90).on_device, 0) << "too large a picture";
  AugMix wide{whole_policy(1)};
  wide.width = 40, wide.depth = 8;
  EXPECT_EQ(compare({kCrop, wide}, 3).on_device, 0) << "too many passes";
}

TEST(PictureSteps, TheWorkspaceIsThatOfThePicturesWhoShareIt) {
  Augmentation a;
  a.crop = {0, 0, 50, 40};
  a.width = 50, a.height = 40;
  a.first = {50, 40};
  a.steps = {RecolorStep{AugmentKind::contrast, 0.5}, MapStep{{1, 0.1, 0, 0, 1, 0}, Interpolation::bicubic}};
  const auto bytes = [&](size_t n) { return fused_workspace_bytes(std::vector<Augmentation>(n, a), 40, 50); };
  EXPECT_GT(bytes(120), 119 * bytes(1) / 2);
  EXPECT_EQ(bytes(5000), bytes(120));
  EXPECT_LT(bytes(120), 120 * (2 * 50 * 40 * 4 + 8192));
  PicturePasses made = passes_of(a.first, a.steps);
  EXPECT_EQ(made.slots, 2);
  EXPECT_FALSE(made.sums);
}

TEST(PictureSteps, StepsThatDoNotFitAreRefused) {
  Augmentation a;
  a.crop = {0, 0, 50, 40};
  a.width = 50, a.height = 40;
  a.first = {50, 40};
  const auto refusal = [&](std::vector<PictureStep> steps) {
    a.steps = std::move(steps);
    try {
      fused_workspace_bytes(std::vector{a}, 40, 50);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal({MoveStep{{-3, 2, 50, 40}}}), "");
  EXPECT_NE(refusal({MoveStep{{0, 0, 30, 40}}}).find("40 x 30 pixels"), std::string::npos);
  EXPECT_NE(refusal({MoveStep{{0, 0, 500, 400}}, MoveStep{{0, 0, 50, 40}}}).find("too large"),
            std::string::npos);
  EXPECT_NE(refusal({MoveStep{{0, 0, 0, 40}}}).find("nothing"), std::string::npos);
  EXPECT_NE(refusal({BlurStep{{1}, std::vector<float>(81)}}).find("a blur"), std::string::npos);
  EXPECT_NE(refusal({MapStep{{}, Interpolation::lanczos}}).find("nearest"), std::string::npos);
  EXPECT_NE(refusal({PerspectiveStep{{}, Interpolation::box}}).find("nearest"), std::string::npos);
  EXPECT_NE(refusal({ResizeStep{0, 40}}).find("nothing"), std::string::npos);
  EXPECT_NE(refusal({MixStep{}}).find("a mix"), std::string::npos);
  a.grayscale = true;
  EXPECT_NE(refusal({MoveStep{{0, 0, 50, 40}}}).find("make them steps"), std::string::npos);
}

}  // namespace
}  // namespace millrace::device
