#include "transforms/policy_draws.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <string>

#include "millrace/error.h"
#include "transforms/affine_matrix.h"

namespace millrace::transforms {
namespace {

// Box and Muller (1958).
double draw_normal(base::Philox& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

// Marsaglia and Tsang, "A simple method for generating gamma variables" (2000).
double draw_gamma(double shape, base::Philox& random) {
  if (shape < 1) {  // their boost, in logarithms, as small shapes give tiny numbers
    const double uniform = 1 - random.uniform();
    return draw_gamma(shape + 1, random) * std::exp(std::log(uniform) / shape);
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = draw_normal(random), v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    if (std::log(1 - random.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

// Dirichlet's distribution; of two, the first is Beta's.
std::vector<double> draw_shares(double alpha, int32_t count, base::Philox& random) {
  std::vector<double> shares;
  double sum = 0;
  for (int32_t i = 0; i < count; ++i) sum += shares.emplace_back(draw_gamma(alpha, random));
  for (double& share : shares) share = sum > 0 ? share / sum : 1.0 / count;
  return shares;
}

double draw_level(const AugmentLevel& t, base::Philox& random) {
  double level = t.mean;
  if (t.uniform)
    level = random.uniform(0, t.mean);
  else if (t.deviation > 0)
    level += t.deviation * draw_normal(random);
  return std::clamp(level, 0.0, t.most);
}

// Element `index` of torch.linspace(0, end, count), computed as torch does, in floats from the nearer end.
double linspace(double end, int32_t count, double index) {
  const auto last = static_cast<float>(end);
  const float step = count > 1 ? last / static_cast<float>(count - 1) : 0;
  const auto i = static_cast<int32_t>(index);
  return i < count / 2 ? step * static_cast<float>(i) : last - step * static_cast<float>(count - i - 1);
}

double draw_value(const AugmentOp& op, PictureSize in, base::Philox& random) {
  double part = 0, from = op.base;
  if (op.level) {
    part = op.level->scale * draw_level(*op.level, random);
    if (op.level->truncated) part = std::trunc(part);
    from = op.level->offset;
  } else if (!op.values.empty()) {
    const auto count = static_cast<int64_t>(op.values.size());
    part = op.values[count > 1 ? static_cast<size_t>(random.integer(0, count)) : 0];
  }
  if (op.share > 0) {
    const double side = op.share * (op.kind == AugmentKind::translate_x ? in.width : in.height);
    part = op.bins > 0 ? linspace(side, op.bins, part) : part * side;
  }
  if (op.is_signed && random.uniform() < 0.5) part = -part;
  double value = from + part;
  if (op.level) value = std::min(op.level->greatest, std::max(op.level->least, value));
  return op.whole ? std::trunc(value) : value;
}

// torchvision shears about the upper left corner, by angles.
InverseAffine inverse_of(AugmentKind kind, double value, AugmentPolicy::Geometry geometry, PictureSize in) {
  if (kind == AugmentKind::rotate) return rotation_inverse(value, std::nullopt, in);
  const bool along_x = kind == AugmentKind::shear_x || kind == AugmentKind::translate_x;
  const bool shears = kind == AugmentKind::shear_x || kind == AugmentKind::shear_y;
  if (geometry == AugmentPolicy::Geometry::pillow) {
    InverseAffine m{1, 0, 0, 0, 1, 0};
    m[shears ? (along_x ? 1 : 3) : (along_x ? 2 : 5)] = value;
    return m;
  }
  AffineParams affine;
  if (shears) {
    (along_x ? affine.shear_x : affine.shear_y) = std::atan(value) * (180 / std::numbers::pi);
    return affine_inverse(affine, std::array<double, 2>{0, 0}, in);
  }
  (along_x ? affine.translate_x : affine.translate_y) = static_cast<int32_t>(value);
  return affine_inverse(affine, std::nullopt, in);
}

void draw_branch(const AugmentPolicy& policy, const AugmentBranch& branch, PictureSize in,
                 base::Philox& random, std::vector<AugmentStep>& steps) {
  for (const AugmentOp& op : branch.ops) {
    if (op.p < 1 && random.uniform() >= op.p) continue;
    AugmentStep step{op.kind};
    if (is_map(op.kind)) {
      const auto count = static_cast<int64_t>(policy.interpolations.size());
      step.interpolation =
          policy.interpolations[count > 1 ? static_cast<size_t>(random.integer(0, count)) : 0];
    }
    step.value = draw_value(op, in, random);
    if (op.kind == AugmentKind::posterize && step.value < op.least_bits)
      throw Error(ErrorKind::invalid_argument,
                  "bits must be between or equal to " + std::to_string(op.least_bits) + " and 8");
    if (is_map(op.kind)) step.inverse = inverse_of(op.kind, step.value, policy.geometry, in);
    steps.push_back(step);
  }
}

}  // namespace

std::vector<AugmentStep> draw_policy(const AugmentPolicy& policy, int32_t count, PictureSize in,
                                     base::Philox& random) {
  if (policy.p < 1 && random.uniform() >= policy.p) return {};
  std::vector<double> weights;
  for (const AugmentBranch& branch : policy.branches) weights.push_back(branch.weight);
  const bool even = std::all_of(weights.begin(), weights.end(), [&](double w) { return w == weights[0]; });
  std::vector<AugmentStep> steps;
  for (int32_t i = 0; i < count; ++i) {
    size_t drawn = 0;
    if (even && policy.replace) {
      drawn = static_cast<size_t>(random.integer(0, std::ssize(weights)));
    } else {
      double sum = 0;
      for (const double weight : weights) sum += weight;
      double rest = random.uniform(0, sum);
      while (drawn + 1 < weights.size() && (weights[drawn] <= 0 || rest >= weights[drawn]))
        rest -= weights[drawn++];
      while (drawn > 0 && weights[drawn] <= 0) --drawn;  // rounding went past the last that is left
      if (!policy.replace) weights[drawn] = 0;
    }
    draw_branch(policy, policy.branches[drawn], in, random, steps);
  }
  return steps;
}

MixParams draw_mix(const AugMix& mix, PictureSize in, base::Philox& random) {
  std::vector<double> shares = draw_shares(mix.alpha, mix.width, random);
  MixParams params;
  params.share = static_cast<float>(draw_shares(mix.alpha, 2, random)[0]);
  if (mix.blended) {
    // The last copy is blended in with its own share; the copies before it share the rest.
    double rest = 1;
    for (auto share = shares.rbegin(); share != shares.rend(); ++share) {
      *share = *share * params.share / rest;
      rest *= 1 - *share;
    }
  }
  for (const double share : shares) {
    const auto count = mix.depth > 0 ? mix.depth : static_cast<int32_t>(random.integer(1, 4));
    params.copies.push_back({static_cast<float>(share), draw_policy(mix.policy, count, in, random)});
  }
  return params;
}

}  // namespace millrace::transforms
