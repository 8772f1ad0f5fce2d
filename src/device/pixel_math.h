// The arithmetic of one pixel, which the CUDA kernels and their CPU reference share, function for function.
//
// The host compiler and nvcc both build without fused multiply-adds, so both give the same bits, but for log
// and cos (normal noise). Two families: `Rgb8` functions keep to Pillow's 8-bit arithmetic and are those of
// the transforms of single pictures (transforms/byte_pixels.h); `Rgb` functions keep to torchvision's on
// tensors, where bytes are truncated after each operation and floats are not rounded at all.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "base/philox_rounds.h"
#include "transforms/byte_pixels.h"

namespace millrace::device {

// ColorJitterParams (transforms/params.h), small enough for hundreds to be arguments of a kernel.
struct JitterParams {
  enum Op : uint8_t { brightness, contrast, saturation, hue, none };  // as ColorOp
  uint8_t order[4] = {none, none, none, none};
  float factor[4] = {1, 1, 1, 0};  // by Op; hue in turns, but for 8-bit arithmetic in 1/256 of a turn
};

MILLRACE_BOTH inline float clamped(float v, float low, float high) { return fminf(fmaxf(v, low), high); }

using transforms::blended8;
using transforms::clamped8;
using transforms::grey8;
using transforms::Rgb8;
using transforms::sector;
using transforms::turned8;

// The operations of `jitter` in their order, up to the first that is `stop`. `mean`: the grey that contrast
// starts from.
MILLRACE_BOTH inline Rgb8 jittered8(Rgb8 p, const JitterParams& jitter, int32_t mean, uint8_t stop = 255) {
  for (int i = 0; i < 4 && jitter.order[i] != stop; ++i) {
    switch (jitter.order[i]) {
      case JitterParams::brightness: p = blended8(0, p, jitter.factor[0]); break;
      case JitterParams::contrast: p = blended8(mean, p, jitter.factor[1]); break;
      case JitterParams::saturation: p = blended8(grey8(p), p, jitter.factor[2]); break;
      case JitterParams::hue: p = turned8(p, static_cast<int32_t>(jitter.factor[3])); break;
      default: break;
    }
  }
  return p;
}

struct Rgb {
  float r = 0, g = 0, b = 0;
};

// The largest value of the element type, and whether results are truncated to whole numbers.
struct ValueRange {
  float largest = 1;
  bool whole = false;
  MILLRACE_BOTH float fit(float v) const {
    v = clamped(v, 0.0f, largest);
    return whole ? floorf(v) : v;
  }
  MILLRACE_BOTH Rgb fit(Rgb p) const { return {fit(p.r), fit(p.g), fit(p.b)}; }
};

MILLRACE_BOTH inline float grey(Rgb p, ValueRange range) {
  const float l = p.r * 0.2989f + p.g * 0.587f + p.b * 0.114f;
  return range.whole ? floorf(l) : l;
}

MILLRACE_BOTH inline Rgb blended(float base, Rgb p, float factor, ValueRange range) {
  const float rest = base * (1.0f - factor);
  return range.fit(Rgb{p.r * factor + rest, p.g * factor + rest, p.b * factor + rest});
}

MILLRACE_BOTH inline Rgb turned(Rgb p, float turns, ValueRange range) {
  if (range.whole) p = {p.r * (1.0f / 255), p.g * (1.0f / 255), p.b * (1.0f / 255)};
  const float largest = fmaxf(p.r, fmaxf(p.g, p.b)), width = largest - fminf(p.r, fminf(p.g, p.b));
  float h = turns;
  if (width != 0) {
    const float rc = (largest - p.r) / width, gc = (largest - p.g) / width, bc = (largest - p.b) / width;
    const float place = p.r == largest   ? bc - gc
                        : p.g == largest ? 2.0f + rc - bc
                                         : 4.0f + gc - rc,
                turn = place * (1.0f / 6.0f) + 1.0f;
    h += turn - floorf(turn);
  }
  h -= floorf(h);
  const float s = width == 0 ? 0.0f : width / largest, sixths = h * 6.0f, whole = floorf(sixths),
              f = sixths - whole;
  const float low = clamped((1.0f - s) * largest, 0.0f, 1.0f),
              falling = clamped((1.0f - s * f) * largest, 0.0f, 1.0f);
  const float rising = clamped((s * f + (1.0f - s)) * largest, 0.0f, 1.0f);
  const auto out = sector<float>(static_cast<int32_t>(whole) % 6, largest, low, falling, rising);
  if (!range.whole) return {out.r, out.g, out.b};
  return range.fit(
      Rgb{out.r * 255.999f, out.g * 255.999f, out.b * 255.999f});  // torchvision's way back to bytes
}

MILLRACE_BOTH inline Rgb jittered(Rgb p, const JitterParams& jitter, float mean, ValueRange range,
                                  uint8_t stop = 255) {
  for (int i = 0; i < 4 && jitter.order[i] != stop; ++i) {
    switch (jitter.order[i]) {
      case JitterParams::brightness: p = blended(0, p, jitter.factor[0], range); break;
      case JitterParams::contrast: p = blended(mean, p, jitter.factor[1], range); break;
      case JitterParams::saturation: p = blended(grey(p, range), p, jitter.factor[2], range); break;
      case JitterParams::hue: p = turned(p, jitter.factor[3], range); break;
      default: break;
    }
  }
  return p;
}

MILLRACE_BOTH inline bool has_op(const JitterParams& jitter, uint8_t op) {
  return jitter.order[0] == op || jitter.order[1] == op || jitter.order[2] == op || jitter.order[3] == op;
}

// Four independent numbers of the standard normal distribution for a pixel: Philox4x32-10 (base/philox.h has
// the paper), Box-Muller.
struct Normals {
  float v[4];
};
MILLRACE_BOTH inline Normals normals_of(uint64_t seed, uint32_t sample, uint64_t pixel) {
  uint32_t c[4] = {static_cast<uint32_t>(pixel), static_cast<uint32_t>(pixel >> 32), sample, 0};
  base::philox_rounds(c, static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
  Normals out;
  for (int i = 0; i < 4; i += 2) {
    const float u = (static_cast<float>(c[i] >> 8) + 0.5f) * 0x1p-24f,
                turn = static_cast<float>(c[i + 1] >> 8) * 0x1p-24f;
    const float radius = sqrtf(-2.0f * logf(u));
    out.v[i] = radius * cosf(6.28318530718f * turn);
    out.v[i + 1] = radius * sinf(6.28318530718f * turn);
  }
  return out;
}

}  // namespace millrace::device
