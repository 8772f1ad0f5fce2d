#include "transforms/chain.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "millrace/error.h"
#include "transforms/ops/operations.h"

namespace millrace::transforms {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

Normalize spread_over_channels(Normalize t) {
  if (t.mean.size() == 1) t.mean.resize(3, t.mean[0]);
  if (t.std.size() == 1) t.std.resize(3, t.std[0]);
  return t;
}

Check check_of(const TransformSpec& spec, size_t position) {
  return {std::visit([](const auto& t) { return name_of(t); }, spec), position};
}

// Makes the steps of a user's chain, including the steps inside of choices.
class StepMaker {
 public:
  // `before`: only after ToTensor.
  ChainStep make(const TransformSpec& spec, size_t position, uint32_t op,
                 const std::optional<TensorSoFar>& before) {
    return std::visit(
        [&]<class T>(const T& t) {
          return ChainStep{checked(t, check_of(spec, position), position, op, before), op};
        },
        spec);
  }

 private:
  template <class T>
  PictureSpec checked(const T& t, const Check& check, size_t position, uint32_t op,
                      const std::optional<TensorSoFar>& before) {
    if constexpr (std::is_same_v<T, RandomChoice>) {
      Operation<T>::check(t, check);
      return PictureSpec(std::in_place_type<Choice>, choice(t, check, position, before));
    } else if constexpr (kChangesPictures<T>) {
      check.require(!std::is_same_v<T, ExifTranspose> || op == 0,
                    "turns the stored picture upright, so it must stand first");
      Operation<T>::check(t, check);
      bool commutes = !before;
      if constexpr (requires { Operation<T>::moves_tensors(t, *before); })
        commutes = commutes || Operation<T>::moves_tensors(t, *before);
      check.require(commutes,
                    "stands behind ToTensor, where its result would differ from the one on pixels; "
                    "put it before ToTensor");
      return PictureSpec(std::in_place_type<T>, t);
    } else {
      check.require(false, "does more than change the picture, so it cannot stand inside of RandomChoice");
      return {};
    }
  }

  Choice choice(const RandomChoice& t, const Check& check, size_t position,
                const std::optional<TensorSoFar>& before) {
    auto made = std::make_shared<ChoiceSteps>();
    for (const std::vector<TransformSpec>& list : t.branches->lists) {
      std::vector<ChainStep>& steps = made->lists.emplace_back();
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
    const Check check = check_of(specs[i], i);
    check.require(chain.erasing.empty() || std::holds_alternative<RandomErasing>(specs[i]),
                  "stands behind RandomErasing, which must come last; put it before RandomErasing");
    std::visit(
        Overloaded{
            [&](const ToTensor& t) {
              check.require(!tensor, "the picture is a tensor already; keep one ToTensor");
              Operation<ToTensor>::check(t, check);
              tensor = true;
              chain.to_tensor = t;
            },
            [&](const RandomErasing& t) {
              Operation<RandomErasing>::check(t, check);
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
              Operation<Normalize>::check(t, check);
              check.require(chain.to_tensor.channels == 3 || (t.mean.size() == 1 && t.std.size() == 1),
                            "mean and std must have one value for the one channel");
              chain.normalize = spread_over_channels(t);
            },
            [&](const GaussianNoise& t) {
              Operation<GaussianNoise>::check(t, check);
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
              const auto before =
                  tensor ? std::optional(TensorSoFar{chain.normalize.has_value(), chain.noise.has_value()})
                         : std::nullopt;
              chain.steps.push_back(steps.make(specs[i], i, static_cast<uint32_t>(i), before));
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
