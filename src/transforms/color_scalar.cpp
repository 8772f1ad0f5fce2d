// The kernels of color_kernels.h written plainly: what the vector versions must equal, and what runs where
// there are none.
#include <algorithm>
#include <cmath>

#include "base/geometry.h"
#include "transforms/color_kernels.h"

namespace millrace::transforms::scalar {
namespace {

uint8_t grey_of(const uint8_t* pixel) {
  return static_cast<uint8_t>((pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16);
}

uint8_t blended(int level, int value, float factor) {
  const float result = static_cast<float>(level) + factor * static_cast<float>(value - level);
  return static_cast<uint8_t>(std::clamp(result, 0.0f, 255.0f));
}

struct Hsv {
  uint8_t h, s, v;
};

// Widths of numbers and the order of operations decide about the last bit: f32 where Pillow keeps f32, else
// f64.
Hsv to_hsv(const uint8_t* pixel) {
  const int r = pixel[0], g = pixel[1], b = pixel[2];
  const int high = std::max({r, g, b}), low = std::min({r, g, b});
  if (high == low) return {0, 0, static_cast<uint8_t>(high)};
  const auto range = static_cast<float>(high - low);
  const auto below = [&](int c) { return static_cast<float>(high - c) / range; };
  float h;
  if (r == high)
    h = below(b) - below(g);
  else if (g == high)
    h = static_cast<float>(2.0 + below(r) - below(b));
  else
    h = static_cast<float>(4.0 + below(g) - below(r));
  h = static_cast<float>(std::fmod(h / 6.0 + 1.0, 1.0));
  const float s = range / static_cast<float>(high);
  return {static_cast<uint8_t>(h * 255.0), static_cast<uint8_t>(s * 255.0), static_cast<uint8_t>(high)};
}

void from_hsv(Hsv c, uint8_t* pixel) {
  const double sixths = static_cast<float>(c.h) * 6.0 / 255.0;
  const int sector = static_cast<int>(sixths);
  const auto f = static_cast<float>(sixths - static_cast<float>(sector)), s = static_cast<float>(c.s / 255.0);
  const auto scaled = [&](double share) {
    return static_cast<uint8_t>(std::round(static_cast<float>(c.v) * share));
  };
  const uint8_t v = c.v, p = scaled(1.0 - s), q = scaled(1.0 - s * f), t = scaled(1.0 - s * (1.0 - f));
  const auto set = [&](uint8_t r, uint8_t g, uint8_t b) { pixel[0] = r, pixel[1] = g, pixel[2] = b; };
  switch (sector) {
    case 1: return set(q, v, p);
    case 2: return set(p, v, t);
    case 3: return set(p, q, v);
    case 4: return set(t, p, v);
    case 5: return set(v, p, q);
    default: return set(v, t, p);
  }
}

}  // namespace

void blend_with_level(const uint8_t* in, int32_t width, uint8_t level, float factor, uint8_t* out) {
  for (int64_t i = 0; i < int64_t{width} * base::kPixelBytes; ++i) out[i] = blended(level, in[i], factor);
}

void blend_with_grey(const uint8_t* in, int32_t width, float factor, uint8_t* out) {
  for (int32_t x = 0; x < width; ++x, in += base::kPixelBytes, out += base::kPixelBytes) {
    const uint8_t grey = grey_of(in);
    for (int c = 0; c < 3; ++c) out[c] = blended(grey, in[c], factor);
  }
}

void shift_hue(const uint8_t* in, int32_t width, uint8_t shift, uint8_t* out) {
  for (int32_t x = 0; x < width; ++x, in += base::kPixelBytes, out += base::kPixelBytes) {
    Hsv color = to_hsv(in);
    color.h = static_cast<uint8_t>(color.h + shift);
    from_hsv(color, out);
  }
}

uint64_t sum_of_grey(const uint8_t* row, int32_t width) {
  uint64_t sum = 0;
  for (int32_t x = 0; x < width; ++x, row += base::kPixelBytes) sum += grey_of(row);
  return sum;
}

}  // namespace millrace::transforms::scalar
