// Rect and ImageView: where pixels are. Plain values, no ownership.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace millrace::base {

struct Rect {
  int32_t left = 0, top = 0, width = 0, height = 0;
  int32_t right() const { return left + width; }
  int32_t bottom() const { return top + height; }
  bool operator==(const Rect&) const = default;
};

// Every image inside the engine is 8-bit RGBX: four bytes a pixel, the fourth without meaning. Four bytes let
// a pixel be one SIMD lane group; grey and CMYK sources are converted when they are decoded, as
// `.convert("RGB")` does in the usual loader.
inline constexpr int32_t kPixelBytes = 4;

// A borrowed image. Rows are `stride_bytes` apart; the memory stays the owner's.
struct ImageView {
  uint8_t* data = nullptr;
  int32_t width = 0, height = 0;
  ptrdiff_t stride_bytes = 0;
  uint8_t* row(int32_t y) const { return data + y * stride_bytes; }
  ImageView part(const Rect& r) const {
    return {row(r.top) + ptrdiff_t{r.left} * kPixelBytes, r.width, r.height, stride_bytes};
  }
};

// Both are of one size.
inline void copy_pixels(ImageView from, ImageView to) {
  for (int32_t y = 0; y < to.height; ++y) std::memcpy(to.row(y), from.row(y), size_t(to.width) * kPixelBytes);
}

}  // namespace millrace::base
