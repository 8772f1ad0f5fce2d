// PictureSize, and torchvision's arithmetic of sizes, free of pixels and of random numbers. Pure, any thread.
#pragma once

#include <cstdint>
#include <string>

namespace millrace::transforms {

struct PictureSize {
  int32_t width = 0, height = 0;
  bool operator==(const PictureSize&) const = default;
};
std::string text(PictureSize size);  // "(height, width)"

// Python's round(): halves go to the even neighbour, as in the default rounding mode.
int32_t round_half_even(double x);

// Pictures larger than this are refused, as Pillow refuses to open them (2 x Image.MAX_IMAGE_PIXELS).
inline constexpr int64_t kMaxOutputPixels = 178'956'970;

// Returns the side of a resized picture. Throws Error(invalid_argument) if it has no pixel, or too many.
int32_t checked_side(int64_t side, PictureSize in);

struct Padding {
  int32_t left = 0, top = 0, right = 0, bottom = 0;
};
// Throws Error(invalid_argument) if a side does not fit in memory.
PictureSize padded(PictureSize in, const Padding& padding);

// Orientations 5 to 8 swap width and height.
inline bool swaps_axes(int orientation) { return orientation >= 5 && orientation <= 8; }

}  // namespace millrace::transforms
