// The kernels of color_kernels.h written plainly. The vector versions must equal them; they run where there
// is no vector version.
#include "base/geometry.h"
#include "transforms/byte_pixels.h"
#include "transforms/color_kernels.h"

namespace millrace::transforms::scalar {
namespace {

Rgb8 pixel_at(const uint8_t* p) { return {p[0], p[1], p[2]}; }
void put(Rgb8 p, uint8_t* out) {
  out[0] = static_cast<uint8_t>(p.r), out[1] = static_cast<uint8_t>(p.g), out[2] = static_cast<uint8_t>(p.b);
}

}  // namespace

void blend_with_level(const uint8_t* in, int32_t width, uint8_t level, float factor, uint8_t* out) {
  for (int64_t i = 0; i < int64_t{width} * base::kPixelBytes; ++i)
    out[i] = static_cast<uint8_t>(blended8(level, in[i], factor));
}

void blend_with_grey(const uint8_t* in, int32_t width, float factor, uint8_t* out) {
  for (int32_t x = 0; x < width; ++x, in += base::kPixelBytes, out += base::kPixelBytes) {
    const Rgb8 p = pixel_at(in);
    put(blended8(grey8(p), p, factor), out);
  }
}

void shift_hue(const uint8_t* in, int32_t width, uint8_t shift, uint8_t* out) {
  for (int32_t x = 0; x < width; ++x, in += base::kPixelBytes, out += base::kPixelBytes) {
    put(turned8(pixel_at(in), shift), out);
  }
}

uint64_t sum_of_grey(const uint8_t* row, int32_t width) {
  uint64_t sum = 0;
  for (int32_t x = 0; x < width; ++x, row += base::kPixelBytes)
    sum += static_cast<uint64_t>(grey8(pixel_at(row)));
  return sum;
}

}  // namespace millrace::transforms::scalar
