#include "transforms/box_blur.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace millrace::transforms {
namespace {

// Pixel (x, y) becomes (y, x), in squares that stay in the first cache.
void turn(base::ImageView in, base::ImageView out) {
  constexpr int32_t kSide = 16;
  for (int32_t top = 0; top < in.height; top += kSide)
    for (int32_t left = 0; left < in.width; left += kSide) {
      const int32_t bottom = std::min(top + kSide, in.height), right = std::min(left + kSide, in.width);
      for (int32_t x = left; x < right; ++x) {
        uint8_t* to = out.row(x) + int64_t{top} * base::kPixelBytes;
        for (int32_t y = top; y < bottom; ++y, to += base::kPixelBytes)
          std::memcpy(to, in.row(y) + int64_t{x} * base::kPixelBytes, base::kPixelBytes);
      }
    }
}

}  // namespace

// In floats where Pillow has floats.
Box box_of(double of) {
  const auto radius = static_cast<float>(of);
  const float variance = radius * radius / kBoxPasses;
  const auto length = static_cast<float>(std::sqrt(12.0 * variance + 1.0));
  const auto whole = static_cast<float>(std::floor((length - 1.0) / 2.0));
  float rest = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance);
  rest /= 6 * (variance - (whole + 1) * (whole + 1));
  const float reach = whole + rest;
  Box box{static_cast<int32_t>(reach), 0, 0};
  constexpr uint32_t one = 1u << kBoxFractionBits;
  box.inner = static_cast<uint32_t>(static_cast<float>(one) / (reach * 2 + 1));
  box.outer = (one - static_cast<uint32_t>(box.reach * 2 + 1) * box.inner) / 2;
  return box;
}

base::ImageView blur_picture(base::ImageView picture, double radius, std::array<PixelBuffer, 2>& memory) {
  const Box box = box_of(radius);
  const int32_t width = picture.width, height = picture.height;
  // Along x first, which is down the columns of the turned picture.
  base::ImageView from = memory[0].resize(height, width), to = memory[1].resize(height, width);
  turn(picture, from);
  for (int pass = 0; pass < kBoxPasses; ++pass, std::swap(from, to)) blur_columns(from, box, to);
  const size_t free = to.data == memory[0].view().data ? 0 : 1;
  const base::ImageView upright = memory[free].resize(width, height);
  turn(from, upright);
  from = upright;
  to = memory[1 - free].resize(width, height);
  for (int pass = 0; pass < kBoxPasses; ++pass, std::swap(from, to)) blur_columns(from, box, to);
  return from;
}

}  // namespace millrace::transforms
