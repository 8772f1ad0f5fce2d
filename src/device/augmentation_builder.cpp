#include "device/augmentation_builder.h"

#include <algorithm>

#include "device/picture_passes.h"
#include "transforms/ops/color_jitter.h"
#include "transforms/ops/grayscale.h"
#include "transforms/pixel_places.h"

namespace millrace::device {
namespace {

using transforms::ColorOp;
using transforms::kColorKinds;

bool inside(const base::Rect& box, int32_t width, int32_t height) {
  return box.left >= 0 && box.top >= 0 && box.width <= width - box.left && box.height <= height - box.top;
}

// The part of an axis that a crop sees, through its padding.
struct Seen {
  int32_t begin, size;
};
Seen seen(int32_t begin, int32_t length, int32_t size, PaddingMode mode) {
  int32_t low = size, high = -1;
  for (int32_t i = begin; i < begin + length; ++i) {
    const int32_t place = transforms::padded_place(i, size, mode, -1);
    if (place >= 0) low = std::min(low, place), high = std::max(high, place);
  }
  if (mode != PaddingMode::constant) {  // these modes depend on where the picture ends
    const int64_t end = int64_t{begin} + length, twice = 2 * int64_t{size} - 1;
    if (begin < 0 || end > twice) low = 0;
    if (end > size || begin < 1 - size) high = size - 1;
  }
  return high < 0 ? Seen{0, 1} : Seen{low, high - low + 1};  // an input is never empty
}

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

}  // namespace

AugmentationBuilder::AugmentationBuilder(int32_t width, int32_t height) : width_(width), height_(height) {
  made_.crop = {0, 0, width, height};
}

void AugmentationBuilder::transpose() {
  std::swap(width_, height_);
  made_.crop = {0, 0, width_, height_};
  made_.transposed = true;
}

void AugmentationBuilder::crop(const base::Rect& box, PaddingMode mode, const std::array<uint8_t, 3>& fill) {
  if (box == base::Rect{0, 0, width_, height_}) return;
  if (coloured() || stepping())
    return add(MoveStep{box, false, false, mode, fill});  // contrast's mean is that of the whole picture
  const bool within = inside(box, width_, height_),
             black = mode == PaddingMode::constant && fill == std::array<uint8_t, 3>{},
             whole = made_.left == 0 && made_.top == 0 &&
                     (!resized_ || (width_ == made_.width && height_ == made_.height));
  if (!within && !(black && whole)) {  // the fused kernel knows black only, around the whole picture
    const Seen x = seen(box.left, box.width, width_, mode), y = seen(box.top, box.height, height_, mode);
    crop({x.begin, y.begin, x.size, y.size});
    return add(
        MoveStep{{box.left - x.begin, box.top - y.begin, box.width, box.height}, false, false, mode, fill});
  }
  // The kernel flips last, so a crop of a mirrored picture becomes a crop of the opposite side.
  const int32_t left = flip_x_ ? width_ - box.left - box.width : box.left,
                top = flip_y_ ? height_ - box.top - box.height : box.top;
  if (!resized_ && within) {
    made_.crop = {made_.crop.left + left, made_.crop.top + top, box.width, box.height};
  } else {
    if (!resized_) resize_to(width_, height_, Interpolation::bilinear, false);  // the same pixels
    made_.left += left;
    made_.top += top;
  }
  width_ = box.width;
  height_ = box.height;
}

void AugmentationBuilder::resize(int32_t width, int32_t height, Interpolation interpolation, bool of_tensor) {
  if (width == width_ && height == height_) return;
  if (resized_ || coloured() || stepping() || interpolation == Interpolation::nearest)
    return add(ResizeStep{width, height, interpolation, of_tensor});
  resize_to(width, height, interpolation, of_tensor);
}

void AugmentationBuilder::resize_to(int32_t width, int32_t height, Interpolation interpolation,
                                    bool of_tensor) {
  made_.width = width_ = width;
  made_.height = height_ = height;
  made_.interpolation = interpolation;
  made_.of_tensor = of_tensor;
  made_.flip_input_x = flip_x_;
  made_.flip_input_y = flip_y_;
  resized_ = true;
}

void AugmentationBuilder::flip_horizontal() {
  if (stepping()) return add(MoveStep{{0, 0, width_, height_}, true, false});
  flip_x_ = !flip_x_;
}

void AugmentationBuilder::flip_vertical() {
  if (stepping()) return add(MoveStep{{0, 0, width_, height_}, false, true});
  flip_y_ = !flip_y_;
}

// The kernel changes each property at most once, then turns the picture grey.
void AugmentationBuilder::recolor(const RecolorStep& step) {
  auto& order = made_.jitter.order;
  const auto kind = std::find(kColorKinds.begin(), kColorKinds.end(), step.kind);
  const bool negative = step.value < 0 && step.kind != AugmentKind::hue;  // of policies alone
  if (stepping() || made_.grayscale || kind == kColorKinds.end() || negative) return add(step);
  if (step.kind == AugmentKind::saturation && step.value == 0) {
    made_.grayscale = true;
    return;
  }
  const auto op = static_cast<ColorOp>(kind - kColorKinds.begin());
  const auto end = std::find(order.begin(), order.end(), ColorOp::none);
  if (std::find(order.begin(), end, op) != end) return add(step);
  *end = op;
  made_.jitter.amount(op) = step.value;
}

void AugmentationBuilder::take(const PictureStep& step) {
  std::visit(Overloaded{[&](const transforms::TransposeStep&) { transpose(); },
                        [&](const MoveStep& t) {
                          crop(t.box, t.mode, t.fill);
                          if (t.flip_horizontal) flip_horizontal();
                          if (t.flip_vertical) flip_vertical();
                        },
                        [&](const ResizeStep& t) {
                          if (t.extent_x) return add(t);
                          resize(t.width, t.height, t.interpolation, t.of_tensor);
                        },
                        [&](const RecolorStep& t) { recolor(t); }, [&](const auto& other) { add(other); }},
             step);
}

void AugmentationBuilder::add(PictureStep step) {
  begin_steps();
  const auto [width, height] = size_after(step, {width_, height_});
  width_ = width;
  height_ = height;
  made_.steps.push_back(std::move(step));
}

// The fused kernel's part ends here; its colours become the first steps.
void AugmentationBuilder::begin_steps() {
  if (stepping()) return;
  made_.first = {width_, height_};
  transforms::add_colors(made_.jitter, made_.steps);
  if (made_.grayscale) made_.steps.emplace_back(transforms::kToGrey);
  made_.jitter = {};
  made_.grayscale = false;
}

bool AugmentationBuilder::coloured() const {
  const auto& order = made_.jitter.order;
  return made_.grayscale || std::any_of(order.begin(), order.end(), [](transforms::ColorOp op) {
           return op != transforms::ColorOp::none;
         });
}

std::optional<Augmentation> AugmentationBuilder::result() const {
  Augmentation result = made_;
  if (!resized_) result.width = made_.crop.width, result.height = made_.crop.height;
  result.flip_horizontal = flip_x_;
  result.flip_vertical = flip_y_;
  if (!result.steps.empty() && !why_not_steps(result.first, result.steps, {width_, height_}).empty())
    return std::nullopt;
  if (result.transposed) {  // back to the axes of the stored picture
    std::swap(result.crop.left, result.crop.top);
    std::swap(result.crop.width, result.crop.height);
    std::swap(result.width, result.height);
    std::swap(result.left, result.top);
    std::swap(result.flip_horizontal, result.flip_vertical);
    std::swap(result.flip_input_x, result.flip_input_y);
  }
  return result;
}

}  // namespace millrace::device
