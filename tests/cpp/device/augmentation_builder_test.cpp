// Chains told step by step: one Augmentation that says the same, or none.
#include <gtest/gtest.h>

#include "device/augmentation_builder.h"
#include "device/picture_passes.h"
#include "transforms/ops/grayscale.h"

namespace millrace::device {
namespace {

const RecolorStep kContrast{AugmentKind::contrast, 0.5};
using transforms::kToGrey;

TEST(AugmentationBuilder, ARandomResizedCrop) {
  AugmentationBuilder b(500, 375);
  b.crop({20, 30, 200, 100});
  b.resize(224, 224, Interpolation::bicubic);
  b.flip_horizontal();
  b.take(kContrast);
  b.take(kToGrey);
  const Augmentation a = b.result().value();
  EXPECT_EQ(a.crop, (base::Rect{20, 30, 200, 100}));
  EXPECT_EQ(a.width, 224);
  EXPECT_EQ(a.interpolation, Interpolation::bicubic);
  EXPECT_TRUE(a.flip_horizontal && a.grayscale && !a.flip_vertical);
  EXPECT_EQ(a.left, 0);
}

TEST(AugmentationBuilder, ACropBehindAResize) {
  AugmentationBuilder b(500, 375);
  b.resize(341, 256, Interpolation::bilinear);
  b.crop({58, 16, 224, 224});
  const Augmentation a = b.result().value();
  EXPECT_EQ(a.crop, (base::Rect{0, 0, 500, 375}));
  EXPECT_EQ(a.left, 58);
  EXPECT_EQ(a.top, 16);
  EXPECT_EQ(b.width(), 224);
  b.crop({10, 20, 100, 100});
  EXPECT_EQ(b.result().value().left, 68);
}

TEST(AugmentationBuilder, CropsOfMirroredPicturesAreMirrored) {
  AugmentationBuilder b(100, 80);
  b.flip_horizontal();
  b.flip_vertical();
  b.crop({10, 5, 30, 20});
  EXPECT_EQ(b.result().value().crop, (base::Rect{60, 55, 30, 20}));
  b.flip_horizontal();
  EXPECT_FALSE(b.result().value().flip_horizontal);
  EXPECT_TRUE(b.result().value().flip_vertical);
}

TEST(AugmentationBuilder, APaddedCropOfAPictureThatWasNotResized) {
  AugmentationBuilder b(32, 32);
  b.crop({-4, 3, 32, 32});
  const Augmentation a = b.result().value();
  EXPECT_EQ(a.crop, (base::Rect{0, 0, 32, 32}));
  EXPECT_EQ(a.width, 32);
  EXPECT_EQ(a.left, -4);
  EXPECT_EQ(a.top, 3);
}

TEST(AugmentationBuilder, NothingToDo) {
  const Augmentation a = AugmentationBuilder(40, 30).result().value();
  EXPECT_EQ(a.crop, (base::Rect{0, 0, 40, 30}));
  EXPECT_EQ(a.width, 40);
  EXPECT_EQ(a.height, 30);
}

TEST(AugmentationBuilder, WhatComesBehindTheFusedKernelIsSteps) {
  AugmentationBuilder late(100, 100), order(100, 100), black(100, 100), flipped(100, 100);
  late.take(kContrast);
  late.crop({0, 0, 50, 50});
  const Augmentation a = late.result().value();
  EXPECT_EQ(a.crop, (base::Rect{0, 0, 100, 100}));
  EXPECT_EQ(a.first, (transforms::PictureSize{100, 100}));
  ASSERT_EQ(a.steps.size(), 2u);
  EXPECT_EQ(std::get<RecolorStep>(a.steps[0]).kind, AugmentKind::contrast);
  EXPECT_EQ(std::get<MoveStep>(a.steps[1]).box, (base::Rect{0, 0, 50, 50}));
  EXPECT_EQ(a.jitter.order[0], transforms::ColorOp::none);

  AugmentationBuilder negative(100, 100);  // a policy may: the jitter of the fused kernel does not
  negative.take(RecolorStep{AugmentKind::brightness, -0.5});
  ASSERT_EQ(negative.result()->steps.size(), 1u);
  EXPECT_EQ(negative.result()->jitter.order[0], transforms::ColorOp::none);

  order.take(kToGrey);
  order.take(kContrast);
  EXPECT_EQ(order.result()->steps.size(), 2u);
  EXPECT_FALSE(order.result()->grayscale);

  black.resize(50, 50, Interpolation::bilinear);
  black.crop({10, 10, 30, 30});
  black.crop({-5, 0, 30, 30});  // only what is seen is made before
  EXPECT_EQ(black.result()->first, (transforms::PictureSize{25, 30}));
  EXPECT_EQ(std::get<MoveStep>(black.result()->steps[0]).box, (base::Rect{-5, 0, 30, 30}));

  flipped.flip_horizontal();
  flipped.take(MapStep{});
  flipped.flip_horizontal();
  EXPECT_TRUE(flipped.result()->flip_horizontal);
  EXPECT_TRUE(std::get<MoveStep>(flipped.result()->steps[1]).flip_horizontal);
}

TEST(AugmentationBuilder, TurnedPicturesAreCutAlongTheirStoredAxes) {
  AugmentationBuilder b(100, 80);
  b.transpose();
  EXPECT_EQ(b.width(), 80);
  b.flip_horizontal();
  b.crop({10, 5, 30, 20});
  b.resize(60, 70, Interpolation::bilinear);
  const Augmentation a = b.result().value();
  EXPECT_EQ(a.crop, (base::Rect{5, 40, 20, 30}));
  EXPECT_EQ(a.width, 70);
  EXPECT_EQ(a.height, 60);
  EXPECT_TRUE(a.transposed && a.flip_vertical && !a.flip_horizontal);
}

TEST(AugmentationBuilder, WhatTheDeviceCannotDoIsLeftToTheCpu) {
  AugmentationBuilder large(100, 100), small(100, 100), table(100, 100), part(100, 100);
  large.take(kContrast);
  large.crop({0, 0, 30, 30});
  small.take(kContrast);
  small.resize(30, 30, Interpolation::bilinear);
  table.take(transforms::PointStep{});
  part.take(ResizeStep{.width = 90,
                       .height = 90,
                       .extent_x = transforms::Extent{0, 50},
                       .extent_y = transforms::Extent{0, 50}});
  for (const AugmentationBuilder* b : {&large, &small, &table, &part}) EXPECT_FALSE(b->result());
}

TEST(AugmentationBuilder, FurtherResizesAreSteps) {
  AugmentationBuilder twice(100, 100), nearest(100, 100), late(100, 100);
  twice.resize(50, 50, Interpolation::bilinear);
  twice.resize(40, 45, Interpolation::lanczos);
  nearest.resize(50, 50, Interpolation::nearest);
  late.take(kContrast);
  late.resize(50, 50, Interpolation::bilinear);
  for (AugmentationBuilder* b : {&twice, &nearest, &late}) {
    const auto made = b->result();
    ASSERT_TRUE(made);
    EXPECT_TRUE(std::holds_alternative<ResizeStep>(made->steps.back()));
  }
  EXPECT_EQ(twice.result()->first, (transforms::PictureSize{50, 50}));
  EXPECT_EQ(std::get<ResizeStep>(twice.result()->steps.back()).height, 45);
}

TEST(AugmentationBuilder, FlipsBeforeTheResizeAreTold) {
  AugmentationBuilder b(100, 80);
  b.flip_horizontal();
  b.resize(50, 50, Interpolation::box);
  b.flip_horizontal();
  b.flip_vertical();
  const auto made = b.result();
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->flip_input_x && made->flip_vertical);
  EXPECT_FALSE(made->flip_input_y || made->flip_horizontal);
}

}  // namespace
}  // namespace millrace::device
