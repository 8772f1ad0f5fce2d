// RandomChoice: torchvision's and timm's choices between lists of transforms. A chain has it as a Choice, with
// its lists checked.
#pragma once

#include <numeric>

#include "transforms/ops/operation.h"

namespace millrace::transforms {

template <>
struct Operation<RandomChoice> {
  static constexpr const char *name = "RandomChoice", *key = "random_choice";

  static void fields(auto& f, auto& t) { f("weights", t.weights)("branches", t.branches); }
  static void check(const RandomChoice& t, const Check& check) {
    check.require(t.branches && !t.weights.empty() && t.weights.size() == t.branches->lists.size(),
                  "needs one transform or more, and a weight for each");
    check.weights(t.weights);
  }
  static void describe(auto& f, const OpParams& decided) { f("chosen", decided.chosen); }
};

template <>
struct Operation<Choice> {
  static void draw(const Choice& t, Draw& draw) {
    const double sum = std::accumulate(t.weights.begin(), t.weights.end(), 0.0);
    double left = draw.random.uniform() * sum;
    for (uint32_t i = 0; i < t.weights.size(); ++i) {
      if (t.weights[i] == 0) continue;
      draw.decided.chosen = i;
      if (left < t.weights[i]) break;
      left -= t.weights[i];
    }
  }
  static bool fits(const Choice& t, const OpParams& decided, PictureSize) {
    return decided.chosen < t.branches->lists.size();
  }
};

}  // namespace millrace::transforms
