// AugmentPolicy and AugMix: RandAugment, AutoAugment, TrivialAugmentWide, and timm's, by policy_draws.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "transforms/ops/operation.h"
#include "transforms/policy_draws.h"

namespace millrace::transforms {

template <>
inline constexpr auto kNamesOf<AugmentKind> = kAugmentNames;
template <>
inline constexpr std::array kNamesOf<AugmentPolicy::Geometry>{"torchvision", "pillow"};

// The parts of a policy; they have fields alone.
template <>
struct Operation<AugmentLevel> {
  static void fields(auto& f, auto& t) {
    f("mean?", t.mean)("std?", t.deviation)("uniform?", t.uniform)("most?", t.most)("offset?", t.offset);
    f("scale?", t.scale)("least?", t.least)("most_value?", t.greatest)("truncated?", t.truncated);
  }
};
template <>
struct Operation<AugmentOp> {
  static void fields(auto& f, auto& t) {
    f("kind", t.kind)("p?", t.p)("values?", t.values)("level?", t.level)("base?", t.base);
    f("signed?", t.is_signed)("share?", t.share)("bins?", t.bins)("whole?", t.whole);
    f("least_bits?", t.least_bits);
  }
  static void check(const AugmentOp& op, const Check& check) {
    check.probability(op.p);
    check.require(is_of_policies(op.kind),
                  "hue and permute are steps of ColorJitter and RandomPhotometricDistort, not of a policy");
    const auto finite = [](double v) { return std::abs(v) <= Check::kAny; };
    check.require(std::all_of(op.values.begin(), op.values.end(), finite) && finite(op.base),
                  "an operation's values must be finite");
    check.require(op.share == 0 || op.kind == AugmentKind::translate_x || op.kind == AugmentKind::translate_y,
                  "only translations are shares of a side");
    check.require(op.share >= 0 && finite(op.share) && op.bins >= 0, "share and bins must be >= 0");
    if (op.bins > 0)
      for (const double index : op.values)
        check.require(index >= 0 && index < op.bins, "an index of bins must lie below their number");
    if (op.level)
      check.require(finite(op.level->mean) && finite(op.level->offset) && finite(op.level->scale) &&
                        op.level->deviation >= 0 && finite(op.level->deviation) && op.level->most >= 0,
                    "a level's numbers must be finite, and its deviation and most >= 0");
    const auto bits = [&](double v) { return op.base + v >= op.least_bits && op.base + v <= 8; };
    if (op.kind == AugmentKind::posterize && !op.level)
      check.require(std::all_of(op.values.begin(), op.values.end(), bits),
                    "bits must be between or equal to " + std::to_string(op.least_bits) + " and 8");
  }
};
template <>
struct Operation<AugmentBranch> {
  static void fields(auto& f, auto& t) { f("weight?", t.weight)("ops", t.ops); }
};

inline bool computable(const std::vector<AugmentStep>& steps) {
  return std::all_of(steps.begin(), steps.end(), [](const AugmentStep& step) {
    return computable(step.inverse) && std::abs(step.value) <= Check::kAny && is_of_policies(step.kind) &&
           (step.kind != AugmentKind::posterize || (step.value >= 0 && step.value <= 8)) &&
           (step.kind != AugmentKind::gaussian_blur || step.value <= 10'000);
  });
}

template <>
struct Operation<AugmentPolicy> {
  static constexpr const char *name = "AugmentPolicy", *key = "augment_policy";

  static void fields(auto& f, auto& t) {
    f("p?", t.p)("count?", t.count)("replace?", t.replace)("branches", t.branches);
    f("interpolations", t.interpolations)("fill?", t.fill)("geometry", t.geometry);
  }
  static void check(const AugmentPolicy& t, const Check& check) {
    check.probability(t.p);
    check.require(!t.branches.empty() && t.count >= 0, "needs a branch to draw, and count >= 0");
    check.require(!t.interpolations.empty(), "needs an interpolation");
    for (const Interpolation interpolation : t.interpolations) check.map(interpolation);
    std::vector<double> weights;
    int64_t usable = 0;
    for (const AugmentBranch& branch : t.branches) {
      weights.push_back(branch.weight);
      usable += branch.weight > 0;
      for (const AugmentOp& op : branch.ops) Operation<AugmentOp>::check(op, check);
    }
    check.weights(weights);
    check.require(t.replace || t.count <= usable,
                  "cannot draw more branches than there are, without drawing one twice");
  }
  static void draw(const AugmentPolicy& t, Draw& draw) {
    draw.decided.steps = draw_policy(t, t.count, draw.in, draw.random);
  }
  static bool fits(const AugmentPolicy&, const OpParams& decided, PictureSize) {
    return computable(decided.steps);
  }
  static void plan(const AugmentPolicy& t, const OpParams& decided, PictureSize, PictureSteps& to) {
    for (const AugmentStep& step : decided.steps) add_operation(step, t.fill, to);
  }
  static void describe(auto& f, const OpParams& decided) { f("ops", decided.steps); }
};

template <>
struct Operation<AugMix> {
  static constexpr const char *name = "AugMix", *key = "augmix";

  static void fields(auto& f, auto& t) {
    f("policy", t.policy)("width", t.width)("depth", t.depth)("alpha", t.alpha)("blended?", t.blended);
  }
  static void check(const AugMix& t, const Check& check) {
    Operation<AugmentPolicy>::check(t.policy, check);
    check.require(t.policy.replace, "draws operations that may come again");
    check.require(t.width >= 1 && t.width <= 64, "width must be 1 to 64");
    check.require(t.depth == -1 || (t.depth >= 1 && t.depth <= 64), "depth must be -1, or 1 to 64");
    check.require(t.alpha > 0 && t.alpha <= Check::kAny, "alpha must be above 0 and finite");
  }
  static void draw(const AugMix& t, Draw& draw) { draw.decided.mix = draw_mix(t, draw.in, draw.random); }
  static bool fits(const AugMix&, const OpParams& decided, PictureSize) {
    const auto share = [](float v) { return v >= 0 && v <= 1.001f; };
    const auto& copies = decided.mix.copies;
    return share(decided.mix.share) && std::all_of(copies.begin(), copies.end(), [&](const auto& copy) {
             return share(copy.share) && computable(copy.steps);
           });
  }
  static void plan(const AugMix& t, const OpParams& decided, PictureSize, PictureSteps& to) {
    to.push_back(MixStep{decided.mix, t.policy.fill, t.blended});
  }
  static void describe(auto& f, const OpParams& decided) {
    f("share", decided.mix.share)("copies", decided.mix.copies);
  }
};

}  // namespace millrace::transforms
