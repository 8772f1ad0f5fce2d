// Chain: a list of transforms, checked and sorted into those that change pictures, those that turn bytes into
// numbers, and those that erase numbers.
//
// check_chain() has every rule about order and arguments; all later code may rely on these rules.
// Pure, any thread.
#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "millrace/transform_spec.h"

namespace millrace::transforms {

// One of several lists of steps.
struct ChoiceSteps;
struct Choice {
  std::vector<double> weights;
  std::shared_ptr<const ChoiceSteps> branches;
};

template <class Variant, class More>
struct WithType;
template <class... Types, class More>
struct WithType<std::variant<Types...>, More> {
  using Type = std::variant<Types..., More>;
};
// Only types with a plan (ops/operation.h); a RandomChoice becomes a Choice.
using PictureSpec = WithType<TransformVariant, Choice>::Type;

struct ChainStep {
  PictureSpec spec;
  // Position in the user's chain, or a number from kNestedSteps on inside of a Choice: names the step in
  // random draws and in messages.
  uint32_t op = 0;
};
inline constexpr uint32_t kNestedSteps = 1u << 15;
struct ChoiceSteps {
  std::vector<std::vector<ChainStep>> lists;
};
struct NoiseStep {
  GaussianNoise spec;
  uint32_t op = 0;
};
struct EraseStep {
  RandomErasing spec;
  uint32_t op = 0;
};

struct Chain {
  std::vector<ChainStep> steps;  // in order; those found after ToTensor commute with it
  ToTensor to_tensor;
  std::optional<Normalize> normalize;  // mean and std have three values each
  std::optional<NoiseStep> noise;
  bool noise_first = false;        // the noise is added before the values are normalised
  std::vector<EraseStep> erasing;  // in order, after everything else

  bool needs_orientation() const;
};

// Throws Error(invalid_argument) naming the transform, the rule and the remedy.
Chain check_chain(const std::vector<TransformSpec>& chain);

}  // namespace millrace::transforms
