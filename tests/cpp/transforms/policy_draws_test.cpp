// What is drawn for augmentation policies: how often, which values, which maps.
#include "transforms/policy_draws.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <set>

#include "millrace/error.h"
#include "transforms/affine_matrix.h"
#include "transforms/chain.h"

namespace millrace::transforms {
namespace {

std::vector<AugmentStep> draw(const AugmentPolicy& policy, int64_t index, PictureSize in = {331, 200}) {
  base::Philox random({.seed = 3, .epoch = 0, .index = index, .occurrence = 0}, 1);
  return draw_policy(policy, policy.count, in, random);
}

AugmentPolicy one(const AugmentOp& op) { return {.branches = {{.ops = {op}}}}; }

TEST(PolicyDraws, BranchesFollowTheirWeights) {
  AugmentPolicy policy{.count = 2, .branches = {}};
  for (int bits = 1; bits <= 4; ++bits)
    policy.branches.push_back({.weight = double(bits), .ops = {{AugmentKind::posterize, 1, {double(bits)}}}});
  std::array<int, 5> seen{};
  const int n = 20'000;
  for (int i = 0; i < n; ++i) {
    const auto steps = draw(policy, i);
    ASSERT_EQ(steps.size(), 2u);
    for (const AugmentStep& step : steps) ++seen[static_cast<int>(step.value)];
  }
  for (int bits = 1; bits <= 4; ++bits) EXPECT_NEAR(seen[bits] / (2.0 * n), bits / 10.0, 0.01);
}

TEST(PolicyDraws, WithoutReplacementNothingComesTwiceAndWeightlessNever) {
  AugmentPolicy policy{.count = 3, .replace = false, .branches = {}};
  for (int bits = 1; bits <= 5; ++bits)
    policy.branches.push_back(
        {.weight = bits == 3 ? 0.0 : 0.1, .ops = {{AugmentKind::posterize, 1, {double(bits)}}}});
  for (int i = 0; i < 2'000; ++i) {
    std::set<double> values;
    for (const AugmentStep& step : draw(policy, i)) values.insert(step.value);
    EXPECT_EQ(values.size(), 3u);
    EXPECT_FALSE(values.contains(3));
  }
}

TEST(PolicyDraws, OperationsHappenWithProbabilityPAndBothSigns) {
  AugmentPolicy policy = one({.kind = AugmentKind::rotate, .p = 0.3, .values = {10, 20}, .is_signed = true});
  policy.interpolations = {Interpolation::bilinear, Interpolation::bicubic};
  std::map<double, int> seen;
  int cubic = 0, happened = 0;
  const int n = 20'000;
  for (int i = 0; i < n; ++i)
    for (const AugmentStep& step : draw(policy, i)) {
      ++happened;
      ++seen[step.value];
      cubic += step.interpolation == Interpolation::bicubic;
      EXPECT_EQ(step.inverse, rotation_inverse(step.value, {}, {331, 200}));
    }
  EXPECT_NEAR(happened / double(n), 0.3, 0.012);
  EXPECT_NEAR(cubic / double(happened), 0.5, 0.03);
  ASSERT_EQ(seen.size(), 4u);
  for (const auto& [value, count] : seen) EXPECT_NEAR(count / double(happened), 0.25, 0.03) << value;
}

TEST(PolicyDraws, APolicyHappensWithProbabilityP) {
  AugmentPolicy policy = one({.kind = AugmentKind::invert});
  policy.count = 3;
  policy.p = 0.25;
  int happened = 0;
  for (int i = 0; i < 20'000; ++i) {
    const size_t steps = draw(policy, i).size();
    ASSERT_TRUE(steps == 0 || steps == 3);
    happened += steps == 3;
  }
  EXPECT_NEAR(happened / 20'000.0, 0.25, 0.012);
}

TEST(PolicyDraws, SharesOfAMixAreDirichletsAndBetas) {
  for (const double alpha : {0.3, 1.0, 4.0}) {
    AugMix mix{.policy = one({.kind = AugmentKind::invert}), .width = 3, .depth = -1, .alpha = alpha};
    const int n = 20'000;
    double share = 0, square = 0, beta = 0, beta_square = 0;
    std::map<size_t, int> depths;
    for (int i = 0; i < n; ++i) {
      base::Philox random({.seed = 3, .epoch = 0, .index = i, .occurrence = 0}, 1);
      const MixParams params = draw_mix(mix, {9, 9}, random);
      ASSERT_EQ(params.copies.size(), 3u);
      double sum = 0;
      for (const MixParams::Copy& copy : params.copies) sum += copy.share, ++depths[copy.steps.size()];
      EXPECT_NEAR(sum, 1, 1e-5);
      share += params.copies[1].share, square += params.copies[1].share * params.copies[1].share;
      beta += params.share, beta_square += params.share * params.share;
    }
    EXPECT_NEAR(share / n, 1.0 / 3, 0.012);
    EXPECT_NEAR(square / n - share / n * share / n, (2.0 / 9) / (3 * alpha + 1), 0.008) << alpha;
    EXPECT_NEAR(beta / n, 0.5, 0.015);
    EXPECT_NEAR(beta_square / n - beta / n * beta / n, 0.25 / (2 * alpha + 1), 0.008) << alpha;
    ASSERT_EQ(depths.size(), 3u);
    for (const auto& [depth, count] : depths) EXPECT_NEAR(count / (3.0 * n), 1.0 / 3, 0.012) << depth;
  }
}

TEST(PolicyDraws, BlendedSharesComeToTheSameMix) {
  AugMix mix{.policy = one({.kind = AugmentKind::invert}), .width = 4};
  for (int i = 0; i < 200; ++i) {
    const base::SampleKey key{.seed = 3, .epoch = 0, .index = i, .occurrence = 0};
    base::Philox summed(key, 1), blended(key, 1);
    mix.blended = false;
    const MixParams a = draw_mix(mix, {9, 9}, summed);
    mix.blended = true;
    const MixParams b = draw_mix(mix, {9, 9}, blended);
    double left = 1;  // of the picture
    for (size_t j = 4; j-- > 0;) {
      EXPECT_NEAR(left * b.copies[j].share, a.share * a.copies[j].share, 1e-5);
      left *= 1 - b.copies[j].share;
    }
    EXPECT_NEAR(left, 1 - a.share, 1e-5);
  }
}

TEST(PolicyDraws, LevelsAreDrawnAroundTheirMeanAndCutOff) {
  AugmentOp op{.kind = AugmentKind::brightness};
  op.level = AugmentLevel{.mean = 9, .deviation = 0.5, .offset = 1, .scale = 0.09, .least = 0.1};
  double sum = 0, square = 0, most = 0;
  const int n = 20'000;
  for (int i = 0; i < n; ++i) {
    const double level = (draw(one(op), i).at(0).value - 1) / 0.09;
    sum += level, square += level * level, most = std::max(most, level);
  }
  EXPECT_NEAR(sum / n, 9, 0.02);
  EXPECT_NEAR(std::sqrt(square / n - sum / n * sum / n), 0.5, 0.02);
  EXPECT_NEAR(most, 10, 1e-9);  // 2 % of the levels
  op.level->uniform = true;
  for (int i = 0; i < 100; ++i) EXPECT_LE(draw(one(op), i).at(0).value, 1 + 9 * 0.09);
}

TEST(PolicyDraws, TruncatesWhatIsAWholeNumberOfThings) {
  AugmentOp bits{.kind = AugmentKind::posterize};
  bits.level = AugmentLevel{.mean = 9, .offset = 4, .scale = -0.4, .truncated = true};
  EXPECT_EQ(draw(one(bits), 0).at(0).value, 1);
  bits.level->mean = 10;
  EXPECT_THROW(draw(one(bits), 0), Error);
  bits.least_bits = 0;
  EXPECT_EQ(draw(one(bits), 0).at(0).value, 0);
}

TEST(PolicyDraws, TranslationsAreSharesOfTheSide) {
  AugmentOp op{
      .kind = AugmentKind::translate_x, .values = {9}, .share = 150.0 / 331, .bins = 31, .whole = true};
  EXPECT_EQ(draw(one(op), 0).at(0).value, 45);
  op.kind = AugmentKind::translate_y;
  EXPECT_EQ(draw(one(op), 0).at(0).value, 27);
  AugmentPolicy pillow = one({.kind = AugmentKind::translate_y, .values = {0.45}, .share = 1});
  pillow.geometry = AugmentPolicy::Geometry::pillow;
  EXPECT_EQ(draw(pillow, 0).at(0).inverse, (InverseAffine{1, 0, 0, 0, 1, 90}));
}

TEST(PolicyDraws, ShearsAreTorchvisionsOrPillows) {
  AugmentPolicy policy = one({.kind = AugmentKind::shear_x, .values = {0.25}});
  const double degrees = std::atan(0.25) * 180 / 3.14159265358979323846;
  const AffineParams affine{.shear_x = degrees};
  const InverseAffine expected = affine_inverse(affine, std::array<double, 2>{0, 0}, {331, 200});
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(draw(policy, 0).at(0).inverse[i], expected[i], 1e-12);
  policy.geometry = AugmentPolicy::Geometry::pillow;
  EXPECT_EQ(draw(policy, 0).at(0).inverse, (InverseAffine{1, 0.25, 0, 0, 1, 0}));
}

TEST(PolicyDraws, ChecksWhatItIsGiven) {
  const auto refused = [](const AugmentPolicy& policy) {
    EXPECT_THROW(check_chain({policy, ToTensor{}}), Error);
  };
  refused({.branches = {}});
  refused({.count = 2, .replace = false, .branches = {{}}});
  refused({.branches = {{.weight = 0, .ops = {}}}});
  refused(one({.kind = AugmentKind::posterize, .values = {9}}));
  refused(one({.kind = AugmentKind::posterize, .values = {0}}));
  refused(one({.kind = AugmentKind::hue, .values = {0.1}}));
  refused(one({.kind = AugmentKind::rotate, .p = 1.5}));
  EXPECT_THROW(check_chain({AugMix{.policy = one({}), .alpha = 0}, ToTensor{}}), Error);
  EXPECT_THROW(check_chain({AugMix{.policy = one({}), .width = 0}, ToTensor{}}), Error);
  EXPECT_THROW(check_chain({AugMix{.policy = one({}), .depth = 0}, ToTensor{}}), Error);
  refused(one({.kind = AugmentKind::rotate, .values = {NAN}}));
  refused(one({.kind = AugmentKind::rotate, .values = {1}, .share = 0.5}));
  refused(one({.kind = AugmentKind::translate_x, .values = {31}, .share = 0.5, .bins = 31}));
  EXPECT_THROW(check_chain({ToTensor{}, one({.kind = AugmentKind::invert})}), Error);
  check_chain({one({.kind = AugmentKind::invert}), ToTensor{}});
}

}  // namespace
}  // namespace millrace::transforms
