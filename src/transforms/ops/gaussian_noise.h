// GaussianNoise: torchvision's, by noise.h.
#pragma once

#include <cmath>

#include "transforms/ops/operation.h"

namespace millrace::transforms {

inline uint64_t draw_noise_key(base::Philox& random) {
  const uint64_t high = random.next_u32();
  return high << 32 | random.next_u32();
}

template <>
struct Operation<GaussianNoise> {
  static constexpr const char *name = "GaussianNoise", *key = "gaussian_noise";

  static void fields(auto& f, auto& t) { f("mean", t.mean)("sigma", t.sigma)("clip", t.clip); }
  static void check(const GaussianNoise& t, const Check& check) {
    check.require(t.sigma >= 0 && t.sigma <= Check::kAny, "sigma shouldn't be negative, nor infinite");
    check.require(std::abs(t.mean) <= Check::kAny, "mean must be finite");
  }
  static void draw(const GaussianNoise&, Draw& draw) { draw.decided.noise = draw_noise_key(draw.random); }
  static void describe(auto& f, const OpParams& decided) { f("key", decided.noise); }
};

}  // namespace millrace::transforms
