#include "transforms/step_geometry.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "millrace/error.h"

namespace millrace::transforms {
namespace {

int32_t checked_length(int64_t length, PictureSize in) {
  if (length < 1 || length > std::numeric_limits<int32_t>::max() / 4)
    throw Error(ErrorKind::invalid_argument, "Resize: a picture of size " + text(in) +
                                                 " (height, width) would get a side of " +
                                                 std::to_string(length) +
                                                 " pixels; height and width must be > 0 and fit in memory; "
                                                 "leave such pictures out or give both sizes");
  return static_cast<int32_t>(length);
}

struct SizeAfter {
  PictureSize in;
  const OpParams* decided;
  PictureSize operator()(const RandomResizedCrop& t) const { return {t.width, t.height}; }
  PictureSize operator()(const Resize& t) const { return resized_size(t, in); }
  PictureSize operator()(const CenterCrop& t) const { return {t.width, t.height}; }
  PictureSize operator()(const RandomCrop& t) const { return {t.width, t.height}; }
  PictureSize operator()(const Frame& t) const {
    const base::Rect box = frame_box(t, in, decided);
    return {box.width, box.height};
  }
  PictureSize operator()(const DrawnResize&) const { return {decided->box.width, decided->box.height}; }
  PictureSize operator()(const Crop& t) const { return {t.box.width, t.box.height}; }
  PictureSize operator()(const BoxResize& t) const { return {t.width, t.height}; }
  PictureSize operator()(const ExifTranspose&) const {
    return swaps_axes(decided->orientation) ? PictureSize{in.height, in.width} : in;
  }
  template <class Other>
  PictureSize operator()(const Other&) const {
    return in;
  }
};

}  // namespace

std::string text(PictureSize s) {
  return "(" + std::to_string(s.height) + ", " + std::to_string(s.width) + ")";
}

int32_t round_half_even(double x) { return static_cast<int32_t>(std::nearbyint(x)); }

PictureSize resized_size(const Resize& t, PictureSize in) {
  if (t.width > 0) return {t.width, t.height};
  // Whole numbers give what Python's int(size * long / short) gives: such quotients are too small to round up
  // to the next one.
  const int64_t shorter = std::min(in.width, in.height), longer = std::max(in.width, in.height);
  int64_t new_short = t.height, new_long = new_short * longer / shorter;
  if (t.height == 0) {
    new_short = t.max_size * shorter / longer;
    new_long = t.max_size;
  }
  if (t.height > 0 && t.max_size > 0 && new_long > t.max_size) {
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
    throw Error(ErrorKind::invalid_argument, "padding makes a picture of " + std::to_string(height) + " x " +
                                                 std::to_string(width) +
                                                 " pixels, more than memory can hold; use a smaller padding");
  return {static_cast<int32_t>(width), static_cast<int32_t>(height)};
}

base::Rect center_crop_box(const CenterCrop& t, PictureSize in) {
  using Place = CenterCrop::Place;
  if (t.place != Place::center && (t.height > in.height || t.width > in.width))
    throw Error(ErrorKind::invalid_argument, "Requested crop size " + text({t.width, t.height}) +
                                                 " is bigger than input size " + text(in) +
                                                 "; use a smaller size, or resize first");
  if (t.place != Place::center && t.place != Place::middle) {
    const bool right = t.place == Place::top_right || t.place == Place::bottom_right,
               bottom = t.place == Place::bottom_left || t.place == Place::bottom_right;
    return {right ? in.width - t.width : 0, bottom ? in.height - t.height : 0, t.width, t.height};
  }
  const auto offset = [](int32_t have, int32_t want) {
    return want > have ? -((want - have) / 2) : round_half_even((have - want) / 2.0);
  };
  return {offset(in.width, t.width), offset(in.height, t.height), t.width, t.height};
}

base::Rect frame_box(const Frame& t, PictureSize in, const OpParams* decided) {
  switch (t.kind) {
    case Frame::Kind::center: return center_crop_box({t.height, t.width}, in);
    case Frame::Kind::anywhere: return decided->box;
    case Frame::Kind::zoom_out:
      return decided->applied ? decided->box : base::Rect{0, 0, in.width, in.height};
    case Frame::Kind::pad: break;
  }
  const PictureSize full = padded(in, {t.padding[0], t.padding[1], t.padding[2], t.padding[3]});
  if (full.width < 1 || full.height < 1)
    throw Error(
        ErrorKind::invalid_argument,
        "Pad: nothing is left of a picture of size " + text(in) +
            " (height, width) when its borders are cut off; cut off less, or leave such pictures out");
  return {-t.padding[0], -t.padding[1], full.width, full.height};
}

PictureSize resized_size(const DrawnResize& t, PictureSize in, const DrawnSize& drawn) {
  const auto checked = [in](double width, double height) {
    const auto whole = [](double side) { return static_cast<int64_t>(std::clamp(side, -1.0, 1e18)); };
    return PictureSize{checked_length(whole(width), in), checked_length(whole(height), in)};
  };
  switch (t.kind) {
    case DrawnResize::Kind::shortest: {
      double ratio = static_cast<double>(drawn.size) / std::min(in.width, in.height);
      if (t.max_size > 0)
        ratio = std::min(ratio, static_cast<double>(t.max_size) / std::max(in.width, in.height));
      return checked(in.width * ratio, in.height * ratio);
    }
    case DrawnResize::Kind::jitter: {  // in floats where torchvision has tensors of them
      const double fit =
          std::min(static_cast<double>(t.width) / in.height, static_cast<double>(t.height) / in.width);
      const float ratio = static_cast<float>(fit) * static_cast<float>(drawn.scale);
      return checked(static_cast<float>(in.width) * ratio, static_cast<float>(in.height) * ratio);
    }
    case DrawnResize::Kind::between: return resized_size(Resize{.height = drawn.size}, in);
    case DrawnResize::Kind::keep_ratio: break;
  }
  const double ratio_x = static_cast<double>(in.width) / t.width,
               ratio_y = static_cast<double>(in.height) / t.height;
  const double ratio =
      std::max(ratio_y, ratio_x) * t.longest + std::min(ratio_y, ratio_x) * (1.0 - t.longest);
  const double aspect = std::sqrt(drawn.aspect);
  return checked(std::nearbyint(in.width * (drawn.scale * aspect) / ratio),
                 std::nearbyint(in.height * (drawn.scale / aspect) / ratio));
}

PictureSize size_after(const PictureStep& step, PictureSize in, const OpParams* decided) {
  return std::visit(SizeAfter{in, decided}, step.spec);
}

}  // namespace millrace::transforms
