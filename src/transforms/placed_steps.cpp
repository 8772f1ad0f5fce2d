#include "transforms/placed_steps.h"

#include <algorithm>
#include <string>

#include "transforms/ops/operations.h"

namespace millrace::transforms {
namespace {

[[noreturn]] void foreign_params(uint32_t op, PictureSize in) {
  throw Error(ErrorKind::invalid_argument,
              "the parameters of transform " + std::to_string(op) + " do not fit a picture of " +
                  std::to_string(in.height) + " x " + std::to_string(in.width) +
                  " pixels (height x width); draw them for this chain and this picture");
}

class Placer {
 public:
  Placer(const SampleParams& params, PictureSteps& placed) : params_(params), placed_(placed) {}

  PictureSize place(const std::vector<ChainStep>& steps, PictureSize size) {
    for (const ChainStep& step : steps)
      size = std::visit([&](const auto& t) { return place(t, step.op, size); }, step.spec);
    return size;
  }

 private:
  template <class T>
  PictureSize place(const T& t, uint32_t op, PictureSize in) {
    if constexpr (std::is_same_v<T, Choice>) {
      return place(t.branches->lists[decision<RandomChoice>(t, op, in).chosen], in);
    } else if constexpr (kChangesPictures<T>) {
      const size_t before = placed_.size();
      Operation<T>::plan(t, decides(t) ? decision<T>(t, op, in) : kNoDecision, in, placed_);
      for (size_t i = before; i < placed_.size(); ++i) in = size_after(placed_[i], in);
    }
    return in;
  }

  template <class Kind, class T>
  const OpParams& decision(const T& t, uint32_t op, PictureSize in) {
    if (next_ == params_.ops.size()) foreign_params(op, in);
    const OpParams& decided = params_.ops[next_++];
    bool fits = decided.kind == kKindOf<Kind> && decided.op == op;
    if constexpr (requires { Operation<T>::fits(t, decided, in); })
      fits = fits && Operation<T>::fits(t, decided, in);
    if (!fits) foreign_params(op, in);
    return decided;
  }

  const SampleParams& params_;
  PictureSteps& placed_;
  size_t next_ = 0;
};

}  // namespace

void place_steps(const Chain& chain, PictureSize stored, const SampleParams& params, PictureSteps& placed) {
  placed.clear();
  Placer(params, placed).place(chain.steps, stored);
}

AddedNoise place_noise(const Chain& chain, const SampleParams& params) {
  if (!chain.noise) return {};
  const auto decided = std::find_if(params.ops.rbegin(), params.ops.rend(),
                                    [](const OpParams& op) { return op.kind == kKindOf<GaussianNoise>; });
  if (decided == params.ops.rend() || decided->op != chain.noise->op) foreign_params(chain.noise->op, {});
  return {&chain.noise->spec, chain.noise_first && chain.normalize ? &*chain.normalize : nullptr,
          decided->noise};
}

std::vector<Erasure> place_erasures(const Chain& chain, PictureSize out, const SampleParams& params) {
  std::vector<Erasure> erasures;
  const size_t count = chain.erasing.size();
  for (size_t i = 0; i < count; ++i) {
    const EraseStep& step = chain.erasing[i];
    if (params.ops.size() < count) foreign_params(step.op, out);
    const OpParams& decided = params.ops[params.ops.size() - count + i];
    if (decided.kind != kKindOf<RandomErasing> || decided.op != step.op) foreign_params(step.op, out);
    if (!decided.applied) continue;
    const auto add = [&](const base::Rect& box, uint64_t number) {
      if (box.width == 0 || box.height == 0) return;  // a drawn rectangle may be empty
      if (!inside(box, out)) foreign_params(step.op, out);
      erasures.push_back({box, &step.spec, decided.noise + number});
    };
    add(decided.box, 0);
    for (size_t more = 0; more < decided.more_boxes.size(); ++more) add(decided.more_boxes[more], more + 1);
  }
  return erasures;
}

}  // namespace millrace::transforms
