#include "transforms/step_geometry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "millrace/error.h"
#include "transforms/draws.h"

namespace millrace {
namespace {

TEST(ResizedSize, FollowsTorchvisionsRounding) {
  EXPECT_EQ(resized_size({.height = 256}, {500, 375}), (PictureSize{341, 256}));   // int(256 * 500 / 375) = 341
  EXPECT_EQ(resized_size({.height = 256}, {375, 500}), (PictureSize{256, 341}));
  EXPECT_EQ(resized_size({.height = 256}, {256, 256}), (PictureSize{256, 256}));
  EXPECT_EQ(resized_size({.height = 30, .width = 40}, {7, 9}), (PictureSize{40, 30}));
  EXPECT_EQ(resized_size({.height = 100, .max_size = 150}, {400, 100}), (PictureSize{150, 37}));  // int(150 * 100 / 400)
}

TEST(ResizedSize, RefusesSidesThatVanishOrExplode) {
  EXPECT_THROW(resized_size({.height = 8, .max_size = 9}, {1000, 1}), Error);
  EXPECT_THROW(resized_size({.height = 40'000}, {60'000, 1}), Error);
}

TEST(CenterCropBox, RoundsHalvesToEvenAndPadsLikeTorchvision) {
  EXPECT_EQ(center_crop_box({4, 4}, {9, 7}), (Rect{2, 2, 4, 4}));    // 2.5 -> 2, 1.5 -> 2
  EXPECT_EQ(center_crop_box({4, 4}, {11, 5}), (Rect{4, 0, 4, 4}));   // 3.5 -> 4, 0.5 -> 0
  EXPECT_EQ(center_crop_box({8, 9}, {4, 5}), (Rect{-2, -1, 9, 8}));  // padding left 5 // 2, top 3 // 2
}

TEST(PaddingOf, PadIfNeededAddsTheLackOnBothSides) {
  const RandomCrop crop{.height = 10, .width = 10, .padding = {1, 0, 1, 0}, .pad_if_needed = true};
  const Padding p = padding_of(crop, {5, 12});
  EXPECT_EQ(p.left, 4);
  EXPECT_EQ(p.right, 4);
  EXPECT_EQ(p.top, 0);
}

SampleKey key(int64_t index) { return {.seed = 7, .epoch = 1, .index = index, .occurrence = 0}; }

TEST(DrawParams, IsAPureFunctionOfTheKey) {
  const Chain chain = check_chain({RandomResizedCrop{.height = 8, .width = 8}, HorizontalFlip{}, ToTensor{}});
  const SampleParams a = draw_params(chain, {500, 375}, 1, key(3)), b = draw_params(chain, {500, 375}, 1, key(3));
  ASSERT_EQ(a.ops.size(), 2u);
  EXPECT_EQ(a.ops[0].box, b.ops[0].box);
  EXPECT_EQ(a.ops[1].applied, b.ops[1].applied);
  EXPECT_NE(a.ops[0].box, draw_params(chain, {500, 375}, 1, key(4)).ops[0].box);
}

TEST(DrawParams, ResizedCropsHaveTorchvisionsDistribution) {
  const Chain chain = check_chain({RandomResizedCrop{.height = 8, .width = 8}, ToTensor{}});
  const int n = 20'000;
  double area = 0, log_ratio = 0;
  for (int i = 0; i < n; ++i) {
    const Rect box = draw_params(chain, {2000, 2000}, 1, key(i)).ops[0].box;
    ASSERT_GE(box.left, 0);
    ASSERT_GE(box.top, 0);
    ASSERT_LE(box.right(), 2000);
    ASSERT_LE(box.bottom(), 2000);
    const double ratio = static_cast<double>(box.width) / box.height;
    ASSERT_GT(ratio, 0.74);
    ASSERT_LT(ratio, 1.35);
    area += double(box.width) * box.height / 4e6 / n;
    log_ratio += std::log(ratio) / n;
  }
  // A target above 0.75 may not fit and is drawn again, so the mean lies below (0.08 + 1) / 2; torchvision's own get_params
  // gives 0.478.
  EXPECT_NEAR(area, 0.478, 0.006);
  EXPECT_NEAR(log_ratio, 0, 0.005);
}

TEST(DrawParams, FallsBackToTheCentralBoxOfAnAllowedRatio) {
  const Chain chain = check_chain({RandomResizedCrop{.height = 8, .width = 8, .scale_min = 4, .scale_max = 4}, ToTensor{}});
  EXPECT_EQ(draw_params(chain, {100, 100}, 1, key(0)).ops[0].box, (Rect{0, 0, 100, 100}));
  EXPECT_EQ(draw_params(chain, {300, 90}, 1, key(0)).ops[0].box, (Rect{90, 0, 120, 90}));
  EXPECT_EQ(draw_params(chain, {90, 300}, 1, key(0)).ops[0].box, (Rect{0, 90, 90, 120}));
}

TEST(DrawParams, CropsReachEveryPlaceEquallyOften) {
  const Chain chain = check_chain({RandomCrop{.height = 4, .width = 4, .padding = {1, 1, 1, 1}}, ToTensor{}});
  std::map<std::pair<int, int>, int> seen;
  for (int i = 0; i < 9000; ++i) {
    const Rect box = draw_params(chain, {4, 4}, 1, key(i)).ops[0].box;
    ++seen[{box.left, box.top}];
  }
  ASSERT_EQ(seen.size(), 9u);
  for (const auto& [place, count] : seen) EXPECT_NEAR(count, 1000, 150) << place.first << ", " << place.second;
}

TEST(DrawParams, FlipsWithProbabilityP) {
  for (const double p : {0.0, 0.25, 1.0}) {
    const Chain chain = check_chain({HorizontalFlip{p}, ToTensor{}});
    int flipped = 0;
    for (int i = 0; i < 10'000; ++i) flipped += draw_params(chain, {4, 4}, 1, key(i)).ops[0].applied;
    EXPECT_NEAR(flipped, 10'000 * p, p == 0.25 ? 200 : 0);
  }
}

TEST(DrawParams, SaysWhatTorchvisionSaysOfTooSmallPictures) {
  const Chain chain = check_chain({RandomCrop{.height = 30, .width = 40}, ToTensor{}});
  try {
    draw_params(chain, {20, 25}, 1, key(0));
    FAIL() << "a crop larger than the picture was drawn";
  } catch (const Error& e) {
    const std::string message = e.what();
    EXPECT_NE(message.find("Required crop size (30, 40) is larger than input image size (25, 20)"), std::string::npos) << message;
    EXPECT_NE(message.find("pad_if_needed"), std::string::npos);
  }
}

TEST(DrawParams, KnowsTheSizeAtEachStep) {
  const Chain chain =
      check_chain({ExifTranspose{}, Resize{.height = 20, .width = 10}, RandomCrop{.height = 20, .width = 10}, ToTensor{}});
  const SampleParams params = draw_params(chain, {300, 200}, 6, key(0));
  ASSERT_EQ(params.ops.size(), 2u);
  EXPECT_EQ(params.ops[0].orientation, 6);
  EXPECT_EQ(params.ops[1].box, (Rect{0, 0, 10, 20}));
}

}  // namespace
}  // namespace millrace
