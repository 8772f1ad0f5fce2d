#include "device/augmentation_builder.h"

#include <algorithm>

namespace millrace::device {
namespace {

bool inside(const base::Rect& box, int32_t width, int32_t height) {
  return box.left >= 0 && box.top >= 0 && box.width <= width - box.left && box.height <= height - box.top;
}

}  // namespace

AugmentationBuilder::AugmentationBuilder(int32_t width, int32_t height) : width_(width), height_(height) {
  made_.crop = {0, 0, width, height};
}

void AugmentationBuilder::crop(const base::Rect& box) {
  // Flips come last in the kernel: what is cut from a mirrored picture is cut from the other side of the
  // picture.
  const int32_t left = flip_x_ ? width_ - box.left - box.width : box.left,
                top = flip_y_ ? height_ - box.top - box.height : box.top;
  const bool within = inside(box, width_, height_);
  if (coloured() && (box.width != width_ || box.height != height_ || !within))
    possible_ = false;  // contrast's mean is of the whole
  if (!resized_ && within) {
    made_.crop = {made_.crop.left + left, made_.crop.top + top, box.width, box.height};
  } else {
    if (!resized_) resize(width_, height_, Interpolation::bilinear);  // to the same size: the same pixels
    const bool whole = made_.left == 0 && made_.top == 0 && width_ == made_.width && height_ == made_.height;
    if (!within && !whole) possible_ = false;  // the black would have to begin inside the resized picture
    made_.left += left;
    made_.top += top;
  }
  width_ = box.width;
  height_ = box.height;
}

void AugmentationBuilder::resize(int32_t width, int32_t height, Interpolation interpolation, bool of_tensor) {
  if (resized_ && (width != width_ || height != height_)) possible_ = false;
  if (coloured() || (interpolation != Interpolation::bilinear && interpolation != Interpolation::bicubic))
    possible_ = false;
  if (!resized_) {
    made_.width = width;
    made_.height = height;
    made_.interpolation = interpolation;
    made_.of_tensor = of_tensor;
  }
  resized_ = true;
  width_ = width;
  height_ = height;
}

void AugmentationBuilder::color_jitter(const transforms::ColorJitterParams& jitter) {
  if (coloured()) possible_ = false;
  made_.jitter = jitter;
}

bool AugmentationBuilder::coloured() const {
  const auto& order = made_.jitter.order;
  return made_.grayscale || std::any_of(order.begin(), order.end(), [](transforms::ColorOp op) {
           return op != transforms::ColorOp::none;
         });
}

std::optional<Augmentation> AugmentationBuilder::result() const {
  if (!possible_) return std::nullopt;
  Augmentation result = made_;
  if (!resized_) result.width = width_, result.height = height_;
  result.flip_horizontal = flip_x_;
  result.flip_vertical = flip_y_;
  return result;
}

}  // namespace millrace::device
