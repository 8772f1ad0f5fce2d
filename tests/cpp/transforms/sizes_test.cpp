// What transforms do to sizes and boxes: torchvision's roundings.
#include "transforms/ops/operations.h"

#include <gtest/gtest.h>

#include "millrace/error.h"

namespace millrace::transforms {
namespace {

TEST(ResizedSize, FollowsTorchvisionsRounding) {
  EXPECT_EQ(resized_size({.height = 256}, {500, 375}),
            (PictureSize{341, 256}));  // int(256 * 500 / 375) = 341
  EXPECT_EQ(resized_size({.height = 256}, {375, 500}), (PictureSize{256, 341}));
  EXPECT_EQ(resized_size({.height = 256}, {256, 256}), (PictureSize{256, 256}));
  EXPECT_EQ(resized_size({.height = 30, .width = 40}, {7, 9}), (PictureSize{40, 30}));
  EXPECT_EQ(resized_size({.height = 100, .max_size = 150}, {400, 100}),
            (PictureSize{150, 37}));  // int(150 * 100 / 400)
}

TEST(ResizedSize, RefusesSidesThatVanishOrExplode) {
  EXPECT_THROW(resized_size({.height = 8, .max_size = 9}, {1000, 1}), Error);
  EXPECT_THROW(resized_size({.height = 40'000}, {60'000, 1}), Error);
}

TEST(CenterCropBox, RoundsHalvesToEvenAndPadsLikeTorchvision) {
  EXPECT_EQ(center_crop_box({4, 4}, {9, 7}), (base::Rect{2, 2, 4, 4}));    // 2.5 -> 2, 1.5 -> 2
  EXPECT_EQ(center_crop_box({4, 4}, {11, 5}), (base::Rect{4, 0, 4, 4}));   // 3.5 -> 4, 0.5 -> 0
  EXPECT_EQ(center_crop_box({8, 9}, {4, 5}), (base::Rect{-2, -1, 9, 8}));  // padding left 5 // 2, top 3 // 2
}

TEST(PaddingOf, PadIfNeededAddsTheLackOnBothSides) {
  const RandomCrop crop{.height = 10, .width = 10, .padding = {1, 0, 1, 0}, .pad_if_needed = true};
  const Padding p = padding_of(crop, {5, 12});
  EXPECT_EQ(p.left, 4);
  EXPECT_EQ(p.right, 4);
  EXPECT_EQ(p.top, 0);
}

}  // namespace
}  // namespace millrace::transforms
