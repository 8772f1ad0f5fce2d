#include "transforms/image_pipeline.h"

#include <string>
#include <utility>

#include "millrace/error.h"
#include "transforms/chain.h"
#include "transforms/draws.h"
#include "transforms/kernels.h"
#include "transforms/ops/operations.h"
#include "transforms/sample_plan.h"
#include "transforms/stage_runner.h"
#include "transforms/value_table.h"

namespace millrace::transforms {

struct ImagePipeline::Scratch {
  SamplePlan plan;
  StageRunner runner;
};

namespace {

void check_picture(int32_t width, int32_t height) {
  if (width < 1 || height < 1)
    throw Error(ErrorKind::invalid_argument,
                "a picture of " + std::to_string(height) + " x " + std::to_string(width) +
                    " pixels (height x width) cannot be transformed; both must be > 0");
}

// The size after a step, if it is the same for all pictures. `in`: the one before it.
using FixedSize = std::optional<PictureSize>;
FixedSize size_after_all(const std::vector<ChainStep>& steps, FixedSize in);

template <class T>
FixedSize fixed_size(const T& t, FixedSize in) {
  if constexpr (requires { Operation<T>::fixed_size(t, in); }) return Operation<T>::fixed_size(t, in);
  return in;
}
FixedSize fixed_size(const Choice& t, FixedSize in) {
  const auto& lists = t.branches->lists;
  const FixedSize first = size_after_all(lists.front(), in);
  for (const auto& list : lists)
    if (size_after_all(list, in) != first) return std::nullopt;
  return first;
}
FixedSize size_after_all(const std::vector<ChainStep>& steps, FixedSize size) {
  for (const ChainStep& step : steps)
    size = std::visit([&](const auto& t) { return fixed_size(t, size); }, step.spec);
  return size;
}

class CheckedPipeline final : public ImagePipeline {
 public:
  explicit CheckedPipeline(Chain chain)
      : chain_(std::move(chain)),
        table_(make_value_table(chain_.to_tensor, chain_.noise_first ? std::nullopt : chain_.normalize)),
        fixed_(size_after_all(chain_.steps, std::nullopt)) {
    table_.math_is_exact = math_gives_table(table_);
    side_by_side_ = table_;
    side_by_side_.interleaved = table_.planes == 3;
    if (fixed_ && table_.type == base::DType::f32 && table_.planes == 3) mixer_.emplace(*fixed_, table_);
  }

  base::DType output_type() const override { return table_.type; }
  std::optional<OutputShape> fixed_shape() const override {
    if (!fixed_) return std::nullopt;
    return OutputShape{table_.planes, fixed_->height, fixed_->width};
  }
  bool needs_orientation() const override { return chain_.needs_orientation(); }
  const Chain& chain() const override { return chain_; }

  SampleParams draw(int32_t width, int32_t height, int orientation, const base::SampleKey& key,
                    uint32_t view) const override {
    check_picture(width, height);
    return draw_params(chain_, {width, height}, orientation, key, view);
  }

  Need plan(int32_t width, int32_t height, const SampleParams& params, Scratch& scratch) const override {
    check_picture(width, height);
    make_sample_plan(chain_, {width, height}, params, scratch.plan);
    return {scratch.plan.region, {table_.planes, scratch.plan.out.height, scratch.plan.out.width}};
  }

  const RowMixer* mixer() const override { return mixer_ ? &*mixer_ : nullptr; }

  void apply(base::ImageView region, Scratch& scratch, void* out) const override {
    check_region(region, scratch);
    scratch.runner.run(scratch.plan, region, table_, out);
  }

  void apply_interleaved(base::ImageView region, Scratch& scratch, void* out) const override {
    if (chain_.noise || !chain_.erasing.empty())
      throw Error(ErrorKind::invalid_argument,
                  "GaussianNoise and RandomErasing write planes; take apply() for such a chain");
    check_region(region, scratch);
    scratch.runner.run(scratch.plan, region, side_by_side_, out);
  }

  void apply_unmixed(base::ImageView region, Scratch& scratch, HalfRow& out) const override {
    check_region(region, scratch);
    scratch.runner.run(scratch.plan, region, mixer_.value().view(out.pixels));
    out.numbers = scratch.plan.numbers;
  }

 private:
  static void check_region(base::ImageView region, const Scratch& scratch) {
    const base::Rect& need = scratch.plan.region;
    if (region.width != need.width || region.height != need.height)
      throw Error(ErrorKind::invalid_argument,
                  "apply() got " + std::to_string(region.height) + " x " + std::to_string(region.width) +
                      " pixels (height x width) where plan() asked for " + std::to_string(need.height) +
                      " x " + std::to_string(need.width) + "; decode the region that plan() named");
  }

  Chain chain_;
  ValueTable table_, side_by_side_;
  std::optional<PictureSize> fixed_;
  std::optional<RowMixer> mixer_;
};

}  // namespace

std::unique_ptr<ImagePipeline> ImagePipeline::create(std::vector<TransformSpec> chain) {
  return std::make_unique<CheckedPipeline>(check_chain(chain));
}

std::unique_ptr<ImagePipeline::Scratch, void (*)(ImagePipeline::Scratch*)> ImagePipeline::make_scratch() {
  return {new Scratch, [](Scratch* scratch) { delete scratch; }};
}

}  // namespace millrace::transforms
