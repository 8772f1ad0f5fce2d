// Changes of one pixel of bytes: Pillow's 8-bit arithmetic, bit for bit, written once for the CPU's plain
// kernels and for the GPU.
//
// Neither compiler fuses multiplications with additions, so both sides give the same bits. Pure, any thread.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"

namespace millrace::transforms {

struct Rgb8 {
  int32_t r = 0, g = 0, b = 0;
};

MILLRACE_BOTH inline int32_t clamped8(int32_t v) { return v < 0 ? 0 : v > 255 ? 255 : v; }

// Cut off at 0 and 255, and rounded down.
MILLRACE_BOTH inline int32_t level_of(float v) {
  return static_cast<int32_t>(v < 0.0f ? 0.0f : v > 255.0f ? 255.0f : v);
}

// `change(level)` for each channel.
template <class Change>
MILLRACE_BOTH inline Rgb8 each_channel(Rgb8 p, Change&& change) {
  return {change(p.r), change(p.g), change(p.b)};
}

// Pillow's "L": the weights of ITU-R 601-2 with 16 fractional bits.
MILLRACE_BOTH inline int32_t grey8(Rgb8 p) { return (p.r * 19595 + p.g * 38470 + p.b * 7471 + 0x8000) >> 16; }

// Image.blend: from `base` (factor 0) towards `v` (factor 1) and beyond.
MILLRACE_BOTH inline int32_t blended8(int32_t base, int32_t v, float factor) {
  return level_of(static_cast<float>(base) + factor * static_cast<float>(v - base));
}
MILLRACE_BOTH inline Rgb8 blended8(int32_t base, Rgb8 p, float factor) {
  return {blended8(base, p.r, factor), blended8(base, p.g, factor), blended8(base, p.b, factor)};
}
MILLRACE_BOTH inline Rgb8 blended8(Rgb8 base, Rgb8 p, float factor) {
  return {blended8(base.r, p.r, factor), blended8(base.g, p.g, factor), blended8(base.b, p.b, factor)};
}

// The six sectors of the colour circle: v, and one of p, q, t, for each channel.
template <class T>
struct Sector {
  T r, g, b;
};
template <class T>
MILLRACE_BOTH inline Sector<T> sector(int32_t i, T v, T p, T q, T t) {
  switch (i) {
    case 0: return {v, t, p};
    case 1: return {q, v, p};
    case 2: return {p, v, t};
    case 3: return {p, q, v};
    case 4: return {t, p, v};
    default: return {v, p, q};
  }
}

// Turns the colours by `turns` of 1/256 of the circle: to 8-bit HSV and back, as Pillow's modes do it. Its
// mixture of f32 and f64 is kept: a hue that falls on the other side of a whole number changes a channel by
// up to six levels.
MILLRACE_BOTH inline Rgb8 turned8(Rgb8 p, int32_t turns) {
  const int32_t largest = p.r > p.g ? (p.r > p.b ? p.r : p.b) : (p.g > p.b ? p.g : p.b);
  const int32_t smallest = p.r < p.g ? (p.r < p.b ? p.r : p.b) : (p.g < p.b ? p.g : p.b);
  if (largest == smallest) return p;
  const auto range = static_cast<float>(largest - smallest), value = static_cast<float>(largest);
  const float rc = static_cast<float>(largest - p.r) / range, gc = static_cast<float>(largest - p.g) / range;
  const float bc = static_cast<float>(largest - p.b) / range;
  const float sixths =
      p.r == largest ? bc - gc : static_cast<float>(p.g == largest ? 2.0 + rc - bc : 4.0 + gc - rc);
  const double turn = sixths / 6.0 + 1.0;  // of 5/6 to 2
  const auto h = static_cast<float>(turn >= 1.0 ? turn - 1.0 : turn);
  const int32_t hue = (static_cast<int32_t>(h * 255.0) + turns) & 255,
                saturation = static_cast<int32_t>(range / value * 255.0);
  if (saturation == 0) return {largest, largest, largest};
  const double place = static_cast<float>(hue) * 6.0 / 255.0;
  const auto i = static_cast<int32_t>(place);
  const auto f = static_cast<float>(place - i), s = static_cast<float>(saturation / 255.0);
  const auto part = [value](double share) { return static_cast<int32_t>(round(value * share)); };
  const auto out =
      sector<int32_t>(i % 6, largest, part(1.0 - s), part(1.0 - s * f), part(1.0 - s * (1.0 - f)));
  return {out.r, out.g, out.b};
}

// ImageEnhance.Sharpness: `v` blended with the mean of its neighbourhood. `sum`: of the nine pixels and four
// times `v` more.
MILLRACE_BOTH inline int32_t sharpened8(int32_t sum, int32_t v, float factor) {
  return blended8((sum + 6) / 13, v, factor);
}

}  // namespace millrace::transforms
