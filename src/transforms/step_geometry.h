// What each transform does to sizes and boxes: torchvision's arithmetic, free of pixels and of random
// numbers. Pure, any thread.
#pragma once

#include <string>

#include "base/geometry.h"
#include "transforms/chain.h"
#include "transforms/params.h"

namespace millrace::transforms {

struct PictureSize {
  int32_t width = 0, height = 0;
  bool operator==(const PictureSize&) const = default;
};
std::string text(PictureSize size);  // "(height, width)"

// Python's round(): halves go to the even neighbour, which is how the default rounding mode rounds.
int32_t round_half_even(double x);

// Pictures larger than this are refused, as Pillow refuses to open them (2 x Image.MAX_IMAGE_PIXELS).
inline constexpr int64_t kMaxOutputPixels = 178'956'970;

PictureSize resized_size(const Resize& resize, PictureSize in);

struct Padding {
  int32_t left = 0, top = 0, right = 0, bottom = 0;
};
Padding padding_of(const RandomCrop& crop, PictureSize in);
PictureSize padded(PictureSize in, const Padding& padding);

// The box in the coordinates of the picture; reaches outside where the picture is smaller (and is black
// there).
base::Rect center_crop_box(const CenterCrop& crop, PictureSize in);

// Whether something about the frame is drawn.
inline bool decides(const Frame& frame) {
  return frame.kind == Frame::Kind::anywhere || frame.kind == Frame::Kind::zoom_out;
}

// The frame's rectangle in the coordinates of the picture. `decided`: null for kinds that decide nothing.
// Throws Error(invalid_argument) where nothing is left of the picture.
base::Rect frame_box(const Frame& frame, PictureSize in, const OpParams* decided);

// The size of a DrawnResize whose factors are drawn: `scale` of both sides, `aspect` of width / height, the
// shorter side `size`. Throws Error(invalid_argument) where a side would have no pixel.
struct DrawnSize {
  double scale = 1, aspect = 1;
  int32_t size = 0;
};
PictureSize resized_size(const DrawnResize& resize, PictureSize in, const DrawnSize& drawn);

// Orientations 5 to 8 swap width and height.
inline bool swaps_axes(int orientation) { return orientation >= 5 && orientation <= 8; }

// The picture's size behind `step`. `decided`: the step's entry in SampleParams, null for steps that decide
// nothing.
PictureSize size_after(const PictureStep& step, PictureSize in, const OpParams* decided);

}  // namespace millrace::transforms
