#include "transforms/step_geometry.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/philox.h"
#include "millrace/error.h"

namespace millrace {
namespace {

std::string text(PictureSize s) { return "(" + std::to_string(s.height) + ", " + std::to_string(s.width) + ")"; }

int32_t checked_length(int64_t length, PictureSize in) {
  if (length < 1 || length > std::numeric_limits<int32_t>::max() / 4)
    throw Error(ErrorKind::invalid_argument, "Resize: a picture of size " + text(in) + " (height, width) would get a side of " +
                                                 std::to_string(length) +
                                                 " pixels; height and width must be > 0 and fit in memory; "
                                                 "leave such pictures out or give both sizes");
  return static_cast<int32_t>(length);
}

// Python's round(): halves go to the even neighbour, which is how the default rounding mode rounds.
int32_t round_half_even(double x) { return static_cast<int32_t>(std::nearbyint(x)); }

// torchvision's RandomResizedCrop.get_params.
Rect draw_resized_crop(const RandomResizedCrop& t, PictureSize in, Philox random) {
  const double area = static_cast<double>(in.width) * in.height;
  const double log_min = std::log(t.ratio_min), log_max = std::log(t.ratio_max);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * random.uniform(t.scale_min, t.scale_max);
    const double ratio = std::exp(random.uniform(log_min, log_max));
    const double w = std::nearbyint(std::sqrt(target * ratio)), h = std::nearbyint(std::sqrt(target / ratio));
    if (w < 1 || w > in.width || h < 1 || h > in.height) continue;
    Rect box{0, 0, static_cast<int32_t>(w), static_cast<int32_t>(h)};
    box.top = static_cast<int32_t>(random.integer(0, in.height - box.height + 1));
    box.left = static_cast<int32_t>(random.integer(0, in.width - box.width + 1));
    return box;
  }
  // No luck: the largest central box of an allowed ratio. Its short side is at least one pixel, where torchvision would fail.
  Rect box{0, 0, in.width, in.height};
  const double ratio = static_cast<double>(in.width) / in.height;
  if (ratio < t.ratio_min) box.height = std::clamp(round_half_even(in.width / t.ratio_min), 1, in.height);
  else if (ratio > t.ratio_max) box.width = std::clamp(round_half_even(in.height * t.ratio_max), 1, in.width);
  box.top = (in.height - box.height) / 2;
  box.left = (in.width - box.width) / 2;
  return box;
}

// torchvision's RandomCrop.get_params, on the padded picture.
Rect draw_crop(const RandomCrop& t, PictureSize in, Philox random) {
  const PictureSize full = padded(in, padding_of(t, in));
  if (full.height < t.height || full.width < t.width)
    throw Error(ErrorKind::invalid_argument, "Required crop size " + text({t.width, t.height}) +
                                                 " is larger than input image size " + text(full) +
                                                 "; use a smaller size, padding, or pad_if_needed=True");
  Rect box{0, 0, t.width, t.height};
  if (full.height > t.height) box.top = static_cast<int32_t>(random.integer(0, full.height - t.height + 1));
  if (full.width > t.width) box.left = static_cast<int32_t>(random.integer(0, full.width - t.width + 1));
  return box;
}

struct Drawer {
  const GeometryStep& step;
  PictureSize in;
  int orientation;
  const SampleKey& key;
  std::vector<OpParams>& out;

  Philox random() const { return Philox(key, step.op); }
  void decide_box(OpParams::Kind kind, Rect box) const { out.push_back({.kind = kind, .op = step.op, .box = box}); }
  void decide_flip(OpParams::Kind kind, double p) const {
    out.push_back({.kind = kind, .op = step.op, .box = {}, .applied = random().uniform() < p});
  }

  void operator()(const RandomResizedCrop& t) const {
    decide_box(OpParams::Kind::resized_crop, draw_resized_crop(t, in, random()));
  }
  void operator()(const RandomCrop& t) const { decide_box(OpParams::Kind::crop, draw_crop(t, in, random())); }
  void operator()(const HorizontalFlip& t) const { decide_flip(OpParams::Kind::flip_horizontal, t.p); }
  void operator()(const VerticalFlip& t) const { decide_flip(OpParams::Kind::flip_vertical, t.p); }
  void operator()(const ExifTranspose&) const {
    out.push_back({.kind = OpParams::Kind::orientation, .op = step.op, .box = {}, .applied = false, .orientation = orientation});
  }
  void operator()(const Resize&) const {}
  void operator()(const CenterCrop&) const {}
};

}  // namespace

PictureSize resized_size(const Resize& t, PictureSize in) {
  if (t.width > 0) return {t.width, t.height};
  // Whole numbers give what Python's int(size * long / short) gives: such quotients are too small to round up to the next one.
  const int64_t shorter = std::min(in.width, in.height), longer = std::max(in.width, in.height);
  int64_t new_short = t.height, new_long = new_short * longer / shorter;
  if (t.max_size > 0 && new_long > t.max_size) {
    new_short = int64_t{t.max_size} * new_short / new_long;
    new_long = t.max_size;
  }
  const int32_t s = checked_length(new_short, in), l = checked_length(new_long, in);
  return in.width <= in.height ? PictureSize{s, l} : PictureSize{l, s};
}

Padding padding_of(const RandomCrop& t, PictureSize in) {
  Padding p{t.padding[0], t.padding[1], t.padding[2], t.padding[3]};
  if (!t.pad_if_needed) return p;
  const PictureSize full = padded(in, p);
  const int32_t more_x = std::max(0, t.width - full.width), more_y = std::max(0, t.height - full.height);
  return {p.left + more_x, p.top + more_y, p.right + more_x, p.bottom + more_y};
}

PictureSize padded(PictureSize in, const Padding& p) {
  const int64_t width = int64_t{in.width} + p.left + p.right, height = int64_t{in.height} + p.top + p.bottom;
  if (std::max(width, height) > std::numeric_limits<int32_t>::max() / 4)
    throw Error(ErrorKind::invalid_argument, "RandomCrop: padding makes a picture of " + std::to_string(height) + " x " +
                                                 std::to_string(width) +
                                                 " pixels, more than memory can hold; use a smaller padding");
  return {static_cast<int32_t>(width), static_cast<int32_t>(height)};
}

Rect center_crop_box(const CenterCrop& t, PictureSize in) {
  const auto offset = [](int32_t have, int32_t want) {
    return want > have ? -((want - have) / 2) : round_half_even((have - want) / 2.0);
  };
  return {offset(in.width, t.width), offset(in.height, t.height), t.width, t.height};
}

PictureSize size_after(const GeometryStep& step, PictureSize in, const OpParams* decided) {
  struct Visitor {
    PictureSize in;
    const OpParams* decided;
    PictureSize operator()(const RandomResizedCrop& t) const { return {t.width, t.height}; }
    PictureSize operator()(const Resize& t) const { return resized_size(t, in); }
    PictureSize operator()(const CenterCrop& t) const { return {t.width, t.height}; }
    PictureSize operator()(const RandomCrop& t) const { return {t.width, t.height}; }
    PictureSize operator()(const HorizontalFlip&) const { return in; }
    PictureSize operator()(const VerticalFlip&) const { return in; }
    PictureSize operator()(const ExifTranspose&) const {
      return swaps_axes(decided->orientation) ? PictureSize{in.height, in.width} : in;
    }
  };
  return std::visit(Visitor{in, decided}, step.spec);
}

SampleParams draw_params(const Chain& chain, PictureSize stored, int orientation, const SampleKey& key) {
  SampleParams params;
  params.ops.reserve(chain.geometry.size());
  PictureSize size = stored;
  for (const GeometryStep& step : chain.geometry) {
    const size_t before = params.ops.size();
    std::visit(Drawer{step, size, orientation, key, params.ops}, step.spec);
    size = size_after(step, size, params.ops.size() > before ? &params.ops.back() : nullptr);
  }
  return params;
}

}  // namespace millrace
