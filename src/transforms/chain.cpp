#include "transforms/chain.h"

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "millrace/error.h"
#include "transforms/argument_checks.h"

namespace millrace::transforms {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

// What stands in front of a step.
struct Before {
  bool tensor;
  const Chain& chain;
};

// Moving whole pixels is the same before and after ToTensor and Normalize; computing or inventing pixels is
// not. A padding of zeros is a black byte before Normalize, and no byte at all behind it; none has noise.
bool commutes_with_tensor(const PictureSpec& spec, const Chain& before) {
  const bool normalized = before.normalize.has_value(), noisy = before.noise.has_value();
  const auto border = [=](PaddingMode mode, const std::array<uint8_t, 3>& fill) {
    return !noisy && (mode != PaddingMode::constant || (fill == std::array<uint8_t, 3>{} && !normalized));
  };
  return std::visit(
      Overloaded{[](const HorizontalFlip&) { return true; }, [](const VerticalFlip&) { return true; },
                 [&](const CenterCrop& t) {
                   return t.place != CenterCrop::Place::center || (!normalized && !noisy);
                 },
                 [&](const RandomCrop& t) {
                   const bool pads = t.pad_if_needed || t.padding != std::array<int32_t, 4>{};
                   return !pads || border(t.padding_mode, t.fill);
                 },
                 [&](const Frame& t) { return border(t.padding_mode, t.fill); },
                 [](const auto&) { return false; }},
      spec);
}

Normalize spread_over_channels(Normalize t) {
  if (t.mean.size() == 1) t.mean.resize(3, t.mean[0]);
  if (t.std.size() == 1) t.std.resize(3, t.std[0]);
  return t;
}

// Steps of a user's chain, those inside of choices included.
class StepMaker {
 public:
  PictureStep make(const TransformSpec& spec, size_t position, uint32_t op, const Before& before) {
    const Check check(spec, position);
    return std::visit([&](const auto& t) { return PictureStep{checked(t, check, position, op, before), op}; },
                      spec);
  }

 private:
  template <class T>
  PictureSpec checked(const T& t, const Check& check, size_t position, uint32_t op, const Before& before) {
    if constexpr (std::is_same_v<T, RandomChoice>) {
      return choice(t, check, position, before);
    } else if constexpr (std::is_constructible_v<PictureSpec, T>) {
      check.require(!std::is_same_v<T, ExifTranspose> || op == 0,
                    "turns the stored picture upright, so it must stand first");
      check_arguments(t, check);
      check.require(!before.tensor || commutes_with_tensor(t, before.chain),
                    "stands behind ToTensor, where its result would differ from the one on pixels; "
                    "put it before ToTensor");
      return t;
    } else {
      check.require(false, "does more than change the picture, so it cannot stand inside of RandomChoice");
      return Choice{};
    }
  }

  Choice choice(const RandomChoice& t, const Check& check, size_t position, const Before& before) {
    check.require(t.branches && !t.weights.empty() && t.weights.size() == t.branches->lists.size(),
                  "needs one transform or more, and a weight for each");
    double sum = 0;
    for (const double weight : t.weights) {
      check.require(weight >= 0 && weight <= Check::kAny, "weights must be finite and >= 0");
      sum += weight;
    }
    check.require(sum > 0, "one weight must be above 0");
    auto made = std::make_shared<ChoiceSteps>();
    for (const std::vector<TransformSpec>& list : t.branches->lists) {
      std::vector<PictureStep>& steps = made->lists.emplace_back();
      for (const TransformSpec& spec : list) {
        check.require(next_ < kMostSteps, "too many transforms inside of choices");
        const uint32_t op = next_++;
        steps.push_back(make(spec, position, op, before));
      }
    }
    return {t.weights, std::move(made)};
  }

  static constexpr uint32_t kMostSteps = 1u << 16;
  uint32_t next_ = kNestedSteps;
};

}  // namespace

bool Chain::needs_orientation() const {
  return !steps.empty() && std::holds_alternative<ExifTranspose>(steps.front().spec);
}

Chain check_chain(const std::vector<TransformSpec>& specs) {
  Chain chain;
  StepMaker steps;
  bool tensor = false;
  for (size_t i = 0; i < specs.size(); ++i) {
    const Check check(specs[i], i);
    check.require(chain.erasing.empty() || std::holds_alternative<RandomErasing>(specs[i]),
                  "stands behind RandomErasing, which must come last; put it before RandomErasing");
    std::visit(
        Overloaded{
            [&](const ToTensor& t) {
              check.require(!tensor, "the picture is a tensor already; keep one ToTensor");
              check.require(t.channels == 1 || t.channels == 3, "a tensor has 1 or 3 channels");
              tensor = true;
              chain.to_tensor = t;
            },
            [&](const RandomErasing& t) {
              check_arguments(t, check);
              check.require(chain.to_tensor.channels == 3, "erases pictures of three channels");
              check.require(tensor && chain.to_tensor.type != OutputType::u8,
                            "erases floats, but no float tensor stands before it; put ToTensor of a "
                            "float type in front of it, or ToDtype that scales");
              chain.erasing.push_back({t, static_cast<uint32_t>(i)});
            },
            [&](const Normalize& t) {
              check.require(
                  tensor,
                  "works on tensors, but no ToTensor stands before it; put ToTensor() in front of it");
              check.require(chain.to_tensor.type != OutputType::u8,
                            "Input tensor should be a float tensor. Got torch.uint8; "
                            "convert first with ToTensor of a float type, or ToDtype that scales");
              check.require(!chain.normalize, "stands twice; fold both into one mean and std");
              check_normalize(t, check);
              check.require(chain.to_tensor.channels == 3 || (t.mean.size() == 1 && t.std.size() == 1),
                            "mean and std must have one value for the one channel");
              chain.normalize = spread_over_channels(t);
            },
            [&](const GaussianNoise& t) {
              check_arguments(t, check);
              check.require(tensor && chain.to_tensor.type == OutputType::f32,
                            "works on tensors of float32; put ToTensor of float32 before it, or ToDtype "
                            "that scales");
              check.require(chain.to_tensor.channels == 3, "works on pictures of three channels");
              check.require(!chain.noise, "stands twice; keep one of them");
              chain.noise = NoiseStep{t, static_cast<uint32_t>(i)};
              chain.noise_first = !chain.normalize;
            },
            [&](const auto&) {
              check.require(i < kNestedSteps, "the chain is too long");
              chain.steps.push_back(steps.make(specs[i], i, static_cast<uint32_t>(i), {tensor, chain}));
            }},
        specs[i]);
  }
  if (!tensor)
    throw Error(ErrorKind::invalid_argument,
                "the chain of transforms has no ToTensor, so it gives pictures, not tensors; "
                "end it with ToTensor() (or ToImage() and ToDtype())");
  return chain;
}

}  // namespace millrace::transforms
