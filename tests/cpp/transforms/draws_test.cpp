#include "transforms/draws.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "millrace/error.h"
#include "transforms/affine_matrix.h"
#include "test_parts.h"

namespace millrace::transforms {
namespace {

using test::key;

TEST(DrawParams, IsAPureFunctionOfTheKey) {
  const Chain chain = check_chain({RandomResizedCrop{.height = 8, .width = 8}, HorizontalFlip{}, ToTensor{}});
  const SampleParams a = draw_params(chain, {500, 375}, 1, key(3)),
                     b = draw_params(chain, {500, 375}, 1, key(3));
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
    const base::Rect box = draw_params(chain, {2000, 2000}, 1, key(i)).ops[0].box;
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
  // A target above 0.75 may not fit and is drawn again, so the mean lies below (0.08 + 1) / 2; torchvision's
  // own get_params gives 0.478.
  EXPECT_NEAR(area, 0.478, 0.006);
  EXPECT_NEAR(log_ratio, 0, 0.005);
}

TEST(DrawParams, FallsBackToTheCentralBoxOfAnAllowedRatio) {
  const Chain chain = check_chain({RandomResizedCrop{.height = 8, .width = 8, .scale = {4, 4}}, ToTensor{}});
  EXPECT_EQ(draw_params(chain, {100, 100}, 1, key(0)).ops[0].box, (base::Rect{0, 0, 100, 100}));
  EXPECT_EQ(draw_params(chain, {300, 90}, 1, key(0)).ops[0].box, (base::Rect{90, 0, 120, 90}));
  EXPECT_EQ(draw_params(chain, {90, 300}, 1, key(0)).ops[0].box, (base::Rect{0, 90, 90, 120}));
}

TEST(DrawParams, CropsReachEveryPlaceEquallyOften) {
  const Chain chain = check_chain({RandomCrop{.height = 4, .width = 4, .padding = {1, 1, 1, 1}}, ToTensor{}});
  std::map<std::pair<int, int>, int> seen;
  for (int i = 0; i < 9000; ++i) {
    const base::Rect box = draw_params(chain, {4, 4}, 1, key(i)).ops[0].box;
    ++seen[{box.left, box.top}];
  }
  ASSERT_EQ(seen.size(), 9u);
  for (const auto& [place, count] : seen)
    EXPECT_NEAR(count, 1000, 150) << place.first << ", " << place.second;
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
    EXPECT_NE(message.find("Required crop size (30, 40) is larger than input image size (25, 20)"),
              std::string::npos)
        << message;
    EXPECT_NE(message.find("pad_if_needed"), std::string::npos);
  }
}

TEST(DrawParams, KnowsTheSizeAtEachStep) {
  const Chain chain = check_chain({ExifTranspose{}, Resize{.height = 20, .width = 10},
                                   RandomCrop{.height = 20, .width = 10}, ToTensor{}});
  const SampleParams params = draw_params(chain, {300, 200}, 6, key(0));
  ASSERT_EQ(params.ops.size(), 2u);
  EXPECT_EQ(params.ops[0].orientation, 6);
  EXPECT_EQ(params.ops[1].box, (base::Rect{0, 0, 10, 20}));
}

TEST(DrawParams, JittersInEveryOrderOfTheAskedForProperties) {
  const Chain chain = check_chain(
      {ColorJitter{.brightness = Range{0.5, 1.5}, .saturation = Range{2, 3}, .hue = Range{-0.25, 0}},
       ToTensor{}});
  std::map<std::array<ColorOp, 4>, int> orders;
  double brightness = 0, hue = 0;
  for (int i = 0; i < 6000; ++i) {
    const ColorJitterParams color = draw_params(chain, {9, 9}, 1, key(i)).ops[0].color;
    ++orders[color.order];
    EXPECT_EQ(color.order[3], ColorOp::none);
    EXPECT_EQ(color.contrast, 1);
    EXPECT_TRUE(color.brightness >= 0.5 && color.brightness <= 1.5 && color.saturation >= 2 &&
                color.saturation <= 3);
    EXPECT_TRUE(color.hue >= -0.25 && color.hue <= 0);
    brightness += color.brightness / 6000;
    hue += color.hue / 6000;
  }
  EXPECT_EQ(orders.size(), 6u);
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, 1000, 150);
  EXPECT_NEAR(brightness, 1, 0.015);
  EXPECT_NEAR(hue, -0.125, 0.004);
}

TEST(DrawParams, MapsAreMadeFromWhatIsDrawn) {
  const RandomAffine affine{
      .degrees = {-20, 20}, .translate = {{0.5, 0.1}}, .scale = Range{0.5, 2}, .shear_x = {-9, 9}};
  const Chain chain = check_chain({affine, RandomRotation{{5, 6}}, ToTensor{}});
  int32_t most_x = 0;
  for (int i = 0; i < 500; ++i) {
    const SampleParams params = draw_params(chain, {100, 200}, 1, key(i));
    const AffineParams& a = params.ops[0].affine;
    EXPECT_LE(std::abs(a.translate_x), 50);
    EXPECT_LE(std::abs(a.translate_y), 20);
    EXPECT_EQ(a.shear_y, 0);
    most_x = std::max(most_x, a.translate_x);
    EXPECT_EQ(params.ops[0].inverse, affine_inverse(a, {}, {100, 200}));
    EXPECT_EQ(params.ops[1].inverse, rotation_inverse(params.ops[1].affine.angle, {}, {100, 200}));
    EXPECT_EQ(params.ops[1].kind, kKindOf<RandomRotation>);
  }
  EXPECT_GT(most_x, 45);
}

TEST(DrawParams, ErasesInsideTheOutputOrNotAtAll) {
  const Chain chain =
      check_chain({CenterCrop{40, 30}, ToTensor{}, RandomErasing{.p = 0.5, .scale = {0.5, 1}}});
  int applied = 0;
  for (int i = 0; i < 2000; ++i) {
    const SampleParams params = draw_params(chain, {100, 100}, 1, key(i));
    ASSERT_EQ(params.ops.size(), 1u);
    const OpParams& erase = params.ops[0];
    applied += erase.applied;
    if (!erase.applied) continue;
    EXPECT_TRUE(erase.box.width < 30 && erase.box.height < 40);
    EXPECT_TRUE(erase.box.left >= 0 && erase.box.top >= 0 && erase.box.right() <= 30 &&
                erase.box.bottom() <= 40);
  }
  EXPECT_TRUE(applied > 500 && applied < 1000) << applied;  // large rectangles often do not fit in ten draws
}

TEST(DrawParams, RefusesABlurThatReachesOverThePicture) {
  const Chain chain = check_chain({GaussianBlur{.kernel_width = 21, .kernel_height = 3}, ToTensor{}});
  EXPECT_NO_THROW(draw_params(chain, {11, 2}, 1, key(0)));
  try {
    draw_params(chain, {10, 50}, 1, key(0));
    FAIL() << "a blur reaches over the picture";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("use a smaller kernel_size"), std::string::npos) << e.what();
  }
}

TEST(AffineMatrix, RightAnglesAreExact) {
  EXPECT_EQ(rotation_inverse(180, {}, {7, 4}), (InverseAffine{-1, 0, 7, 0, -1, 4}));
  EXPECT_EQ(rotation_inverse(-270, {}, {5, 5}), (InverseAffine{0, -1, 5, 1, 0, 0}));
  EXPECT_EQ(rotation_inverse(720, {}, {7, 4}), (InverseAffine{1, 0, 0, 0, 1, 0}));
}

}  // namespace
}  // namespace millrace::transforms
