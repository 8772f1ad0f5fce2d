#include "transforms/image_pipeline.h"

#include <string>
#include <utility>

#include "millrace/error.h"
#include "transforms/chain.h"
#include "transforms/draws.h"
#include "transforms/kernels.h"
#include "transforms/sample_plan.h"
#include "transforms/stage_runner.h"
#include "transforms/step_geometry.h"
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

// The size behind the chain when no picture's own size comes through.
std::optional<PictureSize> size_for_every_picture(const Chain& chain) {
  std::optional<PictureSize> size;
  for (const PictureStep& step : chain.steps) {
    const auto* resize = std::get_if<Resize>(&step.spec);
    if (resize && resize->width == 0) {
      if (size) size = resized_size(*resize, *size);
    } else if (resize || std::holds_alternative<RandomResizedCrop>(step.spec) ||
               std::holds_alternative<CenterCrop>(step.spec) ||
               std::holds_alternative<RandomCrop>(step.spec)) {
      size = size_after(step, size.value_or(PictureSize{}), nullptr);
    }
  }
  return size;
}

class CheckedPipeline final : public ImagePipeline {
 public:
  explicit CheckedPipeline(Chain chain)
      : chain_(std::move(chain)), table_(make_value_table(chain_.to_tensor, chain_.normalize)),
        fixed_(size_for_every_picture(chain_)) {
    table_.math_is_exact = math_gives_table(table_);
    if (fixed_ && table_.type == base::DType::f32 && table_.planes == 3)
      mixer_.emplace(*fixed_, table_, chain_.erasing.empty());
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

  void apply_unmixed(base::ImageView region, Scratch& scratch, uint8_t* out) const override {
    check_region(region, scratch);
    if (mixer_.value().of_pixels())
      scratch.runner.run(scratch.plan, region, mixer_->pixels(out));
    else
      scratch.runner.run(scratch.plan, region, table_, out);
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
  ValueTable table_;
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
