#include "transforms/picture_steps.h"

namespace millrace::transforms {

PictureSize size_after(const PictureStep& step, PictureSize in) {
  if (std::holds_alternative<TransposeStep>(step)) return {in.height, in.width};
  if (const auto* move = std::get_if<MoveStep>(&step)) return {move->box.width, move->box.height};
  if (const auto* resize = std::get_if<ResizeStep>(&step)) return {resize->width, resize->height};
  return in;
}

void add_operation(const AugmentStep& step, const std::array<uint8_t, 3>& fill, PictureSteps& to) {
  if (is_map(step.kind)) return add_map(step.inverse, step.interpolation, fill, to);
  const bool blurs_nothing = step.kind == AugmentKind::gaussian_blur && !(step.value > 0);
  if (step.kind != AugmentKind::identity && !blurs_nothing) to.push_back(RecolorStep{step.kind, step.value});
}

}  // namespace millrace::transforms
