// BatchImages: pictures of one size that lie in memory as one tensor, and how a thread reads and writes eight
// pixels of them.
//
// Element type and layout are looked at while running: one branch per eight pixels, which all threads of a
// kernel take alike, costs nothing next to the memory, and a kernel is compiled once instead of once per pair
// of types.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "device/pixel_math.h"

namespace millrace::device {

inline constexpr int kGroupPixels = 8, kMaxChannels = 3;

struct BatchImages {
  void* data = nullptr;  // dense: (n, c, h, w), or (n, h, w, c) if channels_last
  base::DType type = base::DType::u8;
  int64_t n = 0;
  int32_t c = 0, h = 0, w = 0;  // c: 1 or 3
  bool channels_last = false;

  MILLRACE_BOTH int64_t pixels() const { return int64_t{h} * w; }
  MILLRACE_BOTH int64_t groups() const { return (pixels() + kGroupPixels - 1) / kGroupPixels; }
  MILLRACE_BOTH int64_t element(int64_t sample, int64_t pixel, int32_t channel) const {
    return sample * pixels() * c + (channels_last ? pixel * c + channel : channel * pixels() + pixel);
  }
  MILLRACE_BOTH ValueRange range() const {
    return type == base::DType::u8 ? ValueRange{255.0f, true} : ValueRange{1.0f, false};
  }
};

// Values of up to eight neighbouring pixels, channel by channel.
struct PixelGroup {
  float v[kMaxChannels][kGroupPixels] = {};
};

MILLRACE_BOTH inline uint32_t bits_of(float v) {
  uint32_t bits;
  __builtin_memcpy(&bits, &v, sizeof(bits));
  return bits;
}
MILLRACE_BOTH inline float float_of(uint32_t bits) {
  float v;
  __builtin_memcpy(&v, &bits, sizeof(v));
  return v;
}

// IEEE binary16 and bfloat16 to the nearest, halves to even: the processor's own instructions on the GPU, the
// same results by hand on the CPU.
MILLRACE_BOTH inline uint32_t half_of(float v) {
#if defined(__CUDA_ARCH__)
  uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(v));
  return half;
#else
  const uint32_t bits = bits_of(v), sign = bits >> 16 & 0x8000, m = bits & 0x7FFFFFFF;
  if (m >= 0x477FF000) return m > 0x7F800000 ? 0x7FFF : sign | 0x7C00;  // from 65520 on: infinity
  if (m < 0x38800000)
    return sign | (bits_of(float_of(m) + 0.5f) - bits_of(0.5f));  // subnormal: a multiple of 2^-24
  return sign | ((m - (112u << 23) + 0xFFF + (m >> 13 & 1)) >> 13);
#endif
}
MILLRACE_BOTH inline float float_of_half(uint32_t half) {
#if defined(__CUDA_ARCH__)
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(static_cast<uint16_t>(half)));
  return v;
#else
  const uint32_t sign = (half & 0x8000) << 16, rest = half & 0x7FFF;
  if (rest < 0x400) return float_of(sign | bits_of(static_cast<float>(rest) * 0x1p-24f));
  return float_of(sign | ((rest << 13) + ((rest >= 0x7C00 ? 224u : 112u) << 23)));
#endif
}
MILLRACE_BOTH inline uint32_t bfloat_of(float v) {
  const uint32_t bits = bits_of(v);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return 0x7FFF;
  return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

MILLRACE_BOTH inline float load_element(const void* data, base::DType type, int64_t at) {
  switch (type) {
    case base::DType::u8: return static_cast<const uint8_t*>(data)[at];
    case base::DType::f16: return float_of_half(static_cast<const uint16_t*>(data)[at]);
    case base::DType::bf16: return float_of(uint32_t{static_cast<const uint16_t*>(data)[at]} << 16);
    default: return static_cast<const float*>(data)[at];
  }
}
MILLRACE_BOTH inline void store_element(void* data, base::DType type, int64_t at, float v) {
  switch (type) {
    case base::DType::u8: static_cast<uint8_t*>(data)[at] = static_cast<uint8_t>(v); break;
    case base::DType::f16: static_cast<uint16_t*>(data)[at] = static_cast<uint16_t>(half_of(v)); break;
    case base::DType::bf16: static_cast<uint16_t*>(data)[at] = static_cast<uint16_t>(bfloat_of(v)); break;
    default: static_cast<float*>(data)[at] = v;
  }
}

// Eight elements at once: one access of 8 bytes, one of 16, or two of 16.
struct __attribute__((may_alias, aligned(8))) Words2 {
  uint32_t w[2];
};
struct __attribute__((may_alias, aligned(16))) Words4 {
  uint32_t w[4];
};

MILLRACE_BOTH inline int64_t element_bytes(base::DType type) {
  return type == base::DType::u8 ? 1 : type == base::DType::f32 ? 4 : 2;
}
MILLRACE_BOTH inline bool is_aligned(const void* p, base::DType type) {
  return (reinterpret_cast<uintptr_t>(p) & (type == base::DType::u8 ? 7 : 15)) == 0;
}

MILLRACE_BOTH inline void load8(const void* data, base::DType type, int64_t at, float* out) {
  const void* p = static_cast<const uint8_t*>(data) + at * element_bytes(type);
  if (!is_aligned(p, type)) {
    MILLRACE_UNROLL
    for (int i = 0; i < 8; ++i) out[i] = load_element(data, type, at + i);
  } else if (type == base::DType::u8) {
    const Words2 in = *static_cast<const Words2*>(p);
    MILLRACE_UNROLL
    for (int i = 0; i < 8; ++i) out[i] = static_cast<float>(in.w[i / 4] >> (i % 4 * 8) & 0xFF);
  } else if (type == base::DType::f32) {
    const Words4 low = static_cast<const Words4*>(p)[0], high = static_cast<const Words4*>(p)[1];
    MILLRACE_UNROLL
    for (int i = 0; i < 4; ++i) out[i] = float_of(low.w[i]), out[i + 4] = float_of(high.w[i]);
  } else {
    const Words4 in = *static_cast<const Words4*>(p);
    MILLRACE_UNROLL
    for (int i = 0; i < 8; ++i) {
      const uint32_t bits = in.w[i / 2] >> (i % 2 * 16) & 0xFFFF;
      out[i] = type == base::DType::f16 ? float_of_half(bits) : float_of(bits << 16);
    }
  }
}

MILLRACE_BOTH inline void store8(void* data, base::DType type, int64_t at, const float* v) {
  void* p = static_cast<uint8_t*>(data) + at * element_bytes(type);
  if (!is_aligned(p, type)) {
    MILLRACE_UNROLL
    for (int i = 0; i < 8; ++i) store_element(data, type, at + i, v[i]);
  } else if (type == base::DType::u8) {
    Words2 out{};
    MILLRACE_UNROLL
    for (int i = 0; i < 8; ++i) out.w[i / 4] |= static_cast<uint32_t>(v[i]) << (i % 4 * 8);
    *static_cast<Words2*>(p) = out;
  } else if (type == base::DType::f32) {
    Words4 low, high;
    MILLRACE_UNROLL
    for (int i = 0; i < 4; ++i) low.w[i] = bits_of(v[i]), high.w[i] = bits_of(v[i + 4]);
    static_cast<Words4*>(p)[0] = low;
    static_cast<Words4*>(p)[1] = high;
  } else {
    Words4 out{};
    MILLRACE_UNROLL
    for (int i = 0; i < 8; ++i)
      out.w[i / 2] |= (type == base::DType::f16 ? half_of(v[i]) : bfloat_of(v[i])) << (i % 2 * 16);
    *static_cast<Words4*>(p) = out;
  }
}

// `count` (1 to 8) pixels from `pixel` on; the rest of the group is not touched.
MILLRACE_BOTH inline void load_group(const BatchImages& in, int64_t sample, int64_t pixel, int count,
                                     PixelGroup& group) {
  const int64_t first = sample * in.pixels() * in.c;
  if (count < kGroupPixels) {
    MILLRACE_UNROLL
    for (int i = 0; i < kGroupPixels; ++i) MILLRACE_UNROLL
    for (int c = 0; c < kMaxChannels; ++c)
      if (i < count && c < in.c)
        group.v[c][i] = load_element(in.data, in.type, in.element(sample, pixel + i, c));
  } else if (!in.channels_last || in.c == 1) {
    MILLRACE_UNROLL
    for (int c = 0; c < kMaxChannels; ++c)
      if (c < in.c) load8(in.data, in.type, first + c * in.pixels() + pixel, group.v[c]);
  } else {
    float flat[kMaxChannels * kGroupPixels];
    MILLRACE_UNROLL
    for (int i = 0; i < kMaxChannels; ++i)
      load8(in.data, in.type, first + pixel * kMaxChannels + i * 8, flat + i * 8);
    MILLRACE_UNROLL
    for (int i = 0; i < kMaxChannels * kGroupPixels; ++i)
      group.v[i % kMaxChannels][i / kMaxChannels] = flat[i];
  }
}

MILLRACE_BOTH inline void store_group(const BatchImages& out, int64_t sample, int64_t pixel, int count,
                                      const PixelGroup& group) {
  const int64_t first = sample * out.pixels() * out.c;
  if (count < kGroupPixels) {
    MILLRACE_UNROLL
    for (int i = 0; i < kGroupPixels; ++i) MILLRACE_UNROLL
    for (int c = 0; c < kMaxChannels; ++c)
      if (i < count && c < out.c)
        store_element(out.data, out.type, out.element(sample, pixel + i, c), group.v[c][i]);
  } else if (!out.channels_last || out.c == 1) {
    MILLRACE_UNROLL
    for (int c = 0; c < kMaxChannels; ++c)
      if (c < out.c) store8(out.data, out.type, first + c * out.pixels() + pixel, group.v[c]);
  } else {
    float flat[kMaxChannels * kGroupPixels];
    MILLRACE_UNROLL
    for (int i = 0; i < kMaxChannels * kGroupPixels; ++i)
      flat[i] = group.v[i % kMaxChannels][i / kMaxChannels];
    MILLRACE_UNROLL
    for (int i = 0; i < kMaxChannels; ++i)
      store8(out.data, out.type, first + pixel * kMaxChannels + i * 8, flat + i * 8);
  }
}

}  // namespace millrace::device
