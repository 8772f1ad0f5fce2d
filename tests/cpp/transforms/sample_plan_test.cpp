#include "transforms/sample_plan.h"

#include <gtest/gtest.h>

#include <string>

#include "millrace/error.h"

namespace millrace::transforms {
namespace {

SamplePlan plan_of(const std::vector<TransformSpec>& specs, PictureSize stored,
                   const SampleParams& params = {}) {
  SamplePlan plan;
  make_sample_plan(check_chain(specs), stored, params, plan);
  return plan;
}

SampleParams box_of(base::Rect box) { return {{{.kind = kKindOf<RandomResizedCrop>, .op = 0, .box = box}}}; }

TEST(SamplePlan, ResizedCropNeedsItsBoxAlone) {
  const base::Rect box{30, 20, 200, 150};
  const SamplePlan plan =
      plan_of({RandomResizedCrop{.height = 64, .width = 64}, ToTensor{}}, {500, 375}, box_of(box));
  EXPECT_EQ(plan.region, box);
  EXPECT_EQ(plan.out, (PictureSize{64, 64}));
  EXPECT_EQ(plan.stage_count, 1u);
}

TEST(SamplePlan, CenterCropAfterResizeNeedsOnlyWhatItsFilterTouches) {
  const SamplePlan plan = plan_of({Resize{.height = 256}, CenterCrop{224, 224}, ToTensor{}}, {500, 375});
  ASSERT_EQ(plan.stage_count, 1u);
  // The crop shows columns 58 to 281 of 341 and rows 16 to 239 of 256; the filter reaches 500 / 341 and 375 /
  // 256 pixels further.
  EXPECT_EQ(plan.region.left, static_cast<int32_t>(58.5 * 500 / 341 - 500.0 / 341 + 0.5));
  EXPECT_EQ(plan.region.right(), static_cast<int32_t>(281.5 * 500 / 341 + 500.0 / 341 + 0.5));
  EXPECT_EQ(plan.region.top, static_cast<int32_t>(16.5 * 375 / 256 - 375.0 / 256 + 0.5));
  EXPECT_EQ(plan.region.bottom(), static_cast<int32_t>(239.5 * 375 / 256 + 375.0 / 256 + 0.5));
  EXPECT_EQ(plan.stage(0).x.taps.count, 224);
}

TEST(SamplePlan, FlipsCostNoStage) {
  SampleParams params;
  params.ops.push_back({.kind = kKindOf<HorizontalFlip>, .op = 0, .box = {}, .applied = true});
  params.ops.push_back({.kind = kKindOf<VerticalFlip>, .op = 2, .box = {}, .applied = true});
  const std::vector<TransformSpec> chain{HorizontalFlip{}, Resize{.height = 20, .width = 20}, VerticalFlip{},
                                         ToTensor{}};
  const SamplePlan plan = plan_of(chain, {50, 40}, params);
  EXPECT_EQ(plan.stage_count, 1u);
  EXPECT_EQ(plan.region, (base::Rect{0, 0, 50, 40}));
}

TEST(SamplePlan, OnlyWhatTapsCannotExpressIsCopied) {
  const SampleParams orientation{
      {{.kind = kKindOf<ExifTranspose>, .op = 0, .box = {}, .applied = false, .orientation = 6}}};
  const SamplePlan turned =
      plan_of({ExifTranspose{}, Resize{.height = 20, .width = 20}, ToTensor{}}, {50, 40}, orientation);
  EXPECT_EQ(turned.stage_count, 2u);
  EXPECT_TRUE(turned.stage(0).transposed);

  SampleParams mirrored = orientation;
  mirrored.ops[0].orientation = 3;
  EXPECT_EQ(plan_of({ExifTranspose{}, Resize{.height = 20, .width = 20}, ToTensor{}}, {50, 40}, mirrored)
                .stage_count,
            1u);
}

TEST(SamplePlan, TwoResizesMakeOnlyTheWindowInBetween) {
  const std::vector<TransformSpec> chain{Resize{.height = 100, .width = 100}, CenterCrop{50, 50},
                                         Resize{.height = 25, .width = 25}, ToTensor{}};
  const SamplePlan plan = plan_of(chain, {400, 400});
  ASSERT_EQ(plan.stage_count, 2u);
  EXPECT_EQ(plan.stage(0).x.taps.count, 50);
  EXPECT_EQ(plan.stage(1).in_width, 50);
  EXPECT_LT(plan.region.width, 220);
}

TEST(SamplePlan, RegionIsNeverEmpty) {
  const SampleParams all_padding{{{.kind = kKindOf<RandomCrop>, .op = 0, .box = {0, 0, 8, 8}}}};
  const std::vector<TransformSpec> chain{RandomCrop{.height = 8, .width = 8, .padding = {20, 20, 20, 20}},
                                         ToTensor{}};
  const SamplePlan plan = plan_of(chain, {10, 10}, all_padding);
  EXPECT_EQ(plan.region, (base::Rect{0, 0, 1, 1}));
  EXPECT_TRUE(plan.stage(0).has_fill);
}

TEST(SamplePlan, FollowsPillowsOrderOfPasses) {
  const auto vertical_first = [](PictureSize in, PictureSize out) {
    return plan_of({Resize{.height = out.height, .width = out.width}, ToTensor{}}, in)
        .stage(0)
        .vertical_first;
  };
  EXPECT_FALSE(vertical_first({340, 310}, {224, 224}));
  EXPECT_TRUE(vertical_first({200, 300}, {224, 224}));
  EXPECT_FALSE(vertical_first({96, 189}, {3, 3}));  // 186 rows less is just twice 93 columns less
  EXPECT_TRUE(vertical_first({95, 189}, {3, 3}));
  EXPECT_FALSE(vertical_first({10, 20}, {30, 30}));
}

OpParams jitter(uint32_t op, ColorOp color) {
  OpParams params{.kind = kKindOf<ColorJitter>, .op = op};
  params.color.order[0] = color;
  params.color.hue = 0.25;
  return params;
}

OpParams map_by(uint32_t op, InverseAffine inverse) {
  OpParams params{.kind = kKindOf<RandomRotation>, .op = op};
  params.inverse = inverse;
  return params;
}

TEST(SamplePlan, ColoursCostNoStageWhereListsCommuteWithThem) {
  SampleParams params = box_of({30, 20, 200, 150});
  params.ops.push_back(jitter(1, ColorOp::contrast));
  params.ops.push_back({.kind = kKindOf<HorizontalFlip>, .op = 2, .box = {}, .applied = true});
  params.ops.push_back(jitter(3, ColorOp::hue));
  const SamplePlan plan = plan_of({RandomResizedCrop{.height = 64, .width = 64}, ColorJitter{},
                                   HorizontalFlip{}, ColorJitter{}, ToTensor{}},
                                  {500, 375}, params);
  ASSERT_EQ(plan.stage_count, 1u);
  ASSERT_EQ(plan.stage(0).colors.size(), 2u);
  EXPECT_EQ(plan.stage(0).colors[0].kind, AugmentKind::contrast);
  EXPECT_EQ(plan.stage(0).colors[1].kind, AugmentKind::hue);
  EXPECT_EQ(plan.region, (base::Rect{30, 20, 200, 150}));
}

TEST(SamplePlan, OnlyContrastNeedsWhatACropCutsOff) {
  const std::vector<TransformSpec> chain{ColorJitter{}, CenterCrop{20, 20}, ToTensor{}};
  const SamplePlan hue = plan_of(chain, {100, 80}, {{jitter(0, ColorOp::hue)}});
  EXPECT_EQ(hue.region, (base::Rect{40, 30, 20, 20}));
  EXPECT_EQ(hue.stage_count, 1u);
  const SamplePlan contrast = plan_of(chain, {100, 80}, {{jitter(0, ColorOp::contrast)}});
  EXPECT_EQ(contrast.region, (base::Rect{0, 0, 100, 80}));
  EXPECT_EQ(contrast.stage_count, 2u);
}

TEST(SamplePlan, APaddingBehindAColourKeepsItsOwn) {
  const std::vector<TransformSpec> chain{ColorJitter{}, CenterCrop{20, 20}, ToTensor{}};
  const SamplePlan plan = plan_of(chain, {10, 10}, {{jitter(0, ColorOp::hue)}});
  ASSERT_EQ(plan.stage_count, 2u);
  EXPECT_EQ(plan.stage(0).colors.size(), 1u);
  EXPECT_TRUE(plan.stage(1).colors.empty() && plan.stage(1).has_fill);
}

TEST(SamplePlan, MapsNeedWhatTheirOutputsSee) {
  const std::vector<TransformSpec> chain{RandomRotation{{0, 0}, Interpolation::bilinear}, CenterCrop{20, 20},
                                         ToTensor{}};
  EXPECT_EQ(plan_of(chain, {100, 80}, {{map_by(0, {1, 0, 0, 0, 1, 0})}}).region,
            (base::Rect{40, 30, 20, 20}));
  const SamplePlan turned =
      plan_of(chain, {100, 80}, {{map_by(0, {0, 1, 10, -1, 0, 90})}});  // by a right angle
  EXPECT_EQ(turned.stage_count, 1u);                                    // it reads the decoded region itself
  EXPECT_EQ(turned.stage(0).kind, Stage::Kind::affine);
  EXPECT_LE(turned.region.left, 40);
  EXPECT_GE(turned.region.right(), 60);
  EXPECT_LE(turned.region.width, 30);
  EXPECT_LE(turned.region.height, 30);
  const SamplePlan away = plan_of(chain, {100, 80}, {{map_by(0, {1, 0, 5000, 0, 1, 0})}});
  EXPECT_EQ(away.region.width, 1);
}

TEST(SamplePlan, NearestMapsAlongTheAxesAreLists) {
  const std::vector<TransformSpec> chain{RandomRotation{{0, 0}}, ToTensor{}};
  const SamplePlan plan = plan_of(chain, {100, 80}, {{map_by(0, {-1, 0, 100, 0, -1, 80})}});
  ASSERT_EQ(plan.stage_count, 1u);
  EXPECT_EQ(plan.stage(0).kind, Stage::Kind::resample);
  EXPECT_EQ(plan.stage(0).x.from[0], 99);
}

TEST(SamplePlan, ABlurNeedsAMarginThatMirrorsAtTheEdges) {
  OpParams blur{.kind = kKindOf<GaussianBlur>, .op = 0};
  blur.sigma = 1;
  blur.applied = true;
  const GaussianBlur spec{.kernel_width = 7, .kernel_height = 5};
  const SamplePlan inside = plan_of({spec, CenterCrop{20, 30}, ToTensor{}}, {100, 80}, {{blur}});
  EXPECT_EQ(inside.region, (base::Rect{32, 28, 36, 24}));
  EXPECT_EQ(inside.stage_count, 1u);
  const SamplePlan whole = plan_of({spec, ToTensor{}}, {100, 80}, {{blur}});
  EXPECT_EQ(whole.region, (base::Rect{0, 0, 100, 80}));
  ASSERT_EQ(whole.stage_count, 2u);
  EXPECT_EQ(whole.stage(0).x.from[0], 3);
  EXPECT_EQ(whole.stage(1).in_width, 106);
  blur.applied = false;
  const SamplePlan without = plan_of({spec, CenterCrop{20, 30}, ToTensor{}}, {100, 80}, {{blur}});
  EXPECT_EQ(without.region, (base::Rect{35, 30, 30, 20}));
}

TEST(SamplePlan, RefusesForeignParametersOfEveryKind) {
  OpParams erase{.kind = kKindOf<RandomErasing>, .op = 1, .box = {0, 0, 5, 5}, .applied = true};
  const std::vector<TransformSpec> erasing{ToTensor{}, RandomErasing{}};
  EXPECT_EQ(plan_of(erasing, {10, 10}, {{erase}}).numbers.erasures.size(), 1u);
  EXPECT_THROW(plan_of(erasing, {10, 10}), Error);
  EXPECT_THROW(plan_of(erasing, {4, 10}, {{erase}}), Error);
  EXPECT_THROW(plan_of({ColorJitter{}, ToTensor{}}, {9, 9}, {{map_by(0, {})}}), Error);
  OpParams far_hue = jitter(0, ColorOp::hue);
  far_hue.color.hue = 1e300;
  EXPECT_THROW(plan_of({ColorJitter{}, ToTensor{}}, {9, 9}, {{far_hue}}), Error);
  EXPECT_THROW(plan_of({RandomRotation{}, ToTensor{}}, {9, 9}, {{map_by(0, {0.0 / 0.0, 0, 0, 0, 0, 0})}}),
               Error);
  EXPECT_THROW(
      plan_of({GaussianBlur{3, 3}, ToTensor{}}, {9, 9}, {{{.kind = kKindOf<GaussianBlur>, .applied = true}}}),
      Error);
}

TEST(SamplePlan, RefusesParametersOfAnotherPicture) {
  const std::vector<TransformSpec> chain{RandomResizedCrop{.height = 8, .width = 8}, ToTensor{}};
  EXPECT_THROW(plan_of(chain, {100, 100}), Error);
  EXPECT_THROW(plan_of(chain, {100, 100}, box_of({50, 0, 51, 10})), Error);
  EXPECT_THROW(plan_of(chain, {100, 100}, box_of({0, 0, 0, 10})), Error);
  EXPECT_THROW(plan_of(chain, {100, 100}, box_of({-1, 0, 10, 10})), Error);
  EXPECT_THROW(plan_of({HorizontalFlip{}, ToTensor{}}, {100, 100}, box_of({0, 0, 10, 10})), Error);
  EXPECT_NO_THROW(plan_of(chain, {100, 100}, box_of({50, 0, 50, 10})));
}

TEST(SamplePlan, RefusesTensorsBeyondThePixelLimit) {
  try {
    plan_of({Resize{.height = 20'000, .width = 20'000}, ToTensor{}}, {10, 10});
    FAIL() << "400 million pixels were planned";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("178956970"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace millrace::transforms
