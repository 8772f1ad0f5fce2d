#include "transforms/draws.h"

#include "transforms/ops/operations.h"

namespace millrace::transforms {
namespace {

class Drawer {
 public:
  Drawer(int orientation, const base::SampleKey& key, uint32_t view, std::vector<OpParams>& out)
      : orientation_(orientation), key_(key), view_(view), out_(out) {}

  // Draws from a separate stream of random numbers for each step of each view; `op` is less than 2^16.
  template <class T>
  const OpParams& decide(const T& t, uint32_t op, PictureSize in) {
    OpParams& decided = out_.emplace_back();
    decided.kind = kKindOf<std::conditional_t<std::is_same_v<T, Choice>, RandomChoice, T>>;
    decided.op = op;
    Draw draw{in, orientation_, base::Philox(key_, view_ << 16 | op), decided};
    Operation<T>::draw(t, draw);
    return decided;
  }

  PictureSize steps(const std::vector<ChainStep>& steps, PictureSize size) {
    for (const ChainStep& step : steps)
      size = std::visit([&](const auto& t) { return after(t, step.op, size); }, step.spec);
    return size;
  }

 private:
  template <class T>
  PictureSize after(const T& t, uint32_t op, PictureSize in) {
    if constexpr (std::is_same_v<T, Choice>) {
      const uint32_t chosen = decide(t, op, in).chosen;
      return steps(t.branches->lists[chosen], in);
    } else if constexpr (kChangesPictures<T>) {
      const OpParams* decided = &kNoDecision;
      if constexpr (requires(Draw& draw) { Operation<T>::draw(t, draw); })
        if (decides(t)) decided = &decide(t, op, in);
      if constexpr (requires { Operation<T>::fixed_size(t, in); }) {
        if (const auto fixed = Operation<T>::fixed_size(t, in)) return *fixed;
        planned_.clear();
        Operation<T>::plan(t, *decided, in, planned_);
        for (const PictureStep& step : planned_) in = size_after(step, in);
      }
    }
    return in;
  }

  int orientation_;
  const base::SampleKey& key_;
  uint32_t view_;
  std::vector<OpParams>& out_;
  PictureSteps planned_;  // reused
};

}  // namespace

SampleParams draw_params(const Chain& chain, PictureSize stored, int orientation, const base::SampleKey& key,
                         uint32_t view) {
  SampleParams params;
  params.ops.reserve(chain.steps.size() + chain.erasing.size() + 1);
  Drawer drawer(orientation, key, view, params.ops);
  const PictureSize size = drawer.steps(chain.steps, stored);
  if (chain.noise) drawer.decide(chain.noise->spec, chain.noise->op, size);
  for (const EraseStep& step : chain.erasing) drawer.decide(step.spec, step.op, size);
  return params;
}

}  // namespace millrace::transforms
