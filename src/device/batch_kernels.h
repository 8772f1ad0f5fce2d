// The operations on batches as kernels see them: plain structs of at most 4 KB that are a kernel's only
// argument.
//
// Each says what happens to one group of eight pixels of one sample. The CPU reference calls it in a loop,
// the GPU by a thread per group (kernel_launch.h). The samples' parameters are in the struct itself, a chunk
// of the batch at a time: an argument of a kernel needs no copy to the device, no pinned memory and no event
// that says when it may be reused.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/batch_images.h"

namespace millrace::device {

inline constexpr int32_t kChunkSamples = 128;
inline constexpr size_t kMostKernelBytes = 4096;  // of all arguments of a kernel, on any GPU

// A run of samples of a batch; `first` counts from the batch's first.
struct SampleRange {
  int32_t first = 0, count = 0;
};

MILLRACE_BOTH inline int32_t pixels_in_group(const BatchImages& images, int64_t group) {
  const int64_t left = images.pixels() - group * kGroupPixels;
  return left < kGroupPixels ? static_cast<int32_t>(left) : kGroupPixels;
}

// out = in * scale + shift by channel, in any layout of both; in f32, rounded once.
struct NormalizeKernel {
  BatchImages in, out;
  SampleRange samples;
  float scale[kMaxChannels], shift[kMaxChannels];

  MILLRACE_BOTH int64_t groups() const { return in.groups(); }
  MILLRACE_BOTH void operator()(int32_t i, int64_t g) const {
    const int32_t count = pixels_in_group(in, g);
    PixelGroup group;
    load_group(in, samples.first + i, g * kGroupPixels, count, group);
    MILLRACE_UNROLL
    for (int c = 0; c < kMaxChannels; ++c) MILLRACE_UNROLL
    for (int k = 0; k < kGroupPixels; ++k) group.v[c][k] = group.v[c][k] * scale[c] + shift[c];
    store_group(out, samples.first + i, g * kGroupPixels, count, group);
  }
};

struct FlipKernel {
  BatchImages in, out;
  SampleRange samples;
  bool flipped[kChunkSamples];

  MILLRACE_BOTH int64_t groups() const { return in.groups(); }
  MILLRACE_BOTH void operator()(int32_t i, int64_t g) const {
    const int32_t count = pixels_in_group(in, g), sample = samples.first + i;
    const int64_t pixel = g * kGroupPixels, row = pixel / in.w * in.w;
    PixelGroup group;
    if (!flipped[i]) {
      load_group(in, sample, pixel, count, group);
    } else if (count == kGroupPixels && pixel - row + kGroupPixels <= in.w) {
      PixelGroup mirrored;
      load_group(in, sample, 2 * row + in.w - pixel - kGroupPixels, count, mirrored);
      MILLRACE_UNROLL
      for (int c = 0; c < kMaxChannels; ++c) MILLRACE_UNROLL
      for (int k = 0; k < kGroupPixels; ++k) group.v[c][k] = mirrored.v[c][kGroupPixels - 1 - k];
    } else {
      int64_t from = 2 * row + in.w - 1 - pixel, left = in.w - (pixel - row);  // pixels to the end of the row
      MILLRACE_UNROLL
      for (int k = 0; k < kGroupPixels; ++k) {
        MILLRACE_UNROLL
        for (int c = 0; c < kMaxChannels; ++c)
          if (k < count && c < in.c)
            group.v[c][k] = load_element(in.data, in.type, in.element(sample, from, c));
        --from;
        if (--left == 0) from += 2 * int64_t{in.w}, left = in.w;
      }
    }
    store_group(out, sample, pixel, count, group);
  }
};

// An affine map as torch's grid_sample does it, with zeros around the picture and torchvision's fill.
struct AffineKernel {
  BatchImages in, out;
  SampleRange samples;
  bool bilinear;
  float fill[kMaxChannels];
  struct Inverse {
    float m[6];
  } inverse[kChunkSamples];  // as InverseAffine (transforms/params.h)

  MILLRACE_BOTH int64_t groups() const { return in.groups(); }
  MILLRACE_BOTH void operator()(int32_t i, int64_t g) const {
    const int32_t count = pixels_in_group(in, g);
    const int64_t pixel = g * kGroupPixels;
    int32_t y = static_cast<int32_t>(pixel / in.w), x = static_cast<int32_t>(pixel - int64_t{y} * in.w);
    const float* m = inverse[i].m;
    PixelGroup group;
    MILLRACE_UNROLL
    for (int k = 0; k < kGroupPixels; ++k) {
      if (k < count) {
        const float cx = static_cast<float>(x) + 0.5f, cy = static_cast<float>(y) + 0.5f;
        const float from_x = m[0] * cx + m[1] * cy + m[2] - 0.5f,
                    from_y = m[3] * cx + m[4] * cy + m[5] - 0.5f;
        float pixel_values[kMaxChannels] = {};
        sample_at(samples.first + i, from_x, from_y, pixel_values);
        MILLRACE_UNROLL
        for (int c = 0; c < kMaxChannels; ++c) group.v[c][k] = pixel_values[c];
        if (++x == in.w) x = 0, ++y;
      }
    }
    store_group(out, samples.first + i, pixel, count, group);
  }

 private:
  MILLRACE_BOTH float value(int32_t sample, int32_t x, int32_t y, int32_t c) const {
    return load_element(in.data, in.type, in.element(sample, int64_t{y} * in.w + x, c));
  }
  MILLRACE_BOTH void sample_at(int32_t sample, float x, float y, float* values) const {
    const bool far =
        !(x > -1.0f && y > -1.0f && x < static_cast<float>(in.w) && y < static_cast<float>(in.h));
    if (!bilinear) {
      const auto nx = static_cast<int32_t>(rintf(far ? -1.0f : x)),
                 ny = static_cast<int32_t>(rintf(far ? -1.0f : y));
      const bool inside = nx >= 0 && ny >= 0 && nx < in.w && ny < in.h;
      MILLRACE_UNROLL
      for (int c = 0; c < kMaxChannels; ++c)
        if (c < in.c) values[c] = inside ? value(sample, nx, ny, c) : fill[c];
      return;
    }
    float sums[kMaxChannels] = {}, mask = 0;
    if (!far) {
      const float left = floorf(x), top = floorf(y);
      MILLRACE_UNROLL
      for (int corner = 0; corner < 4; ++corner) {
        const int32_t px = static_cast<int32_t>(left) + corner % 2,
                      py = static_cast<int32_t>(top) + corner / 2;
        if (px < 0 || py < 0 || px >= in.w || py >= in.h) continue;
        const float weight =
            (corner % 2 ? x - left : 1.0f - (x - left)) * (corner / 2 ? y - top : 1.0f - (y - top));
        mask += weight;
        MILLRACE_UNROLL
        for (int c = 0; c < kMaxChannels; ++c)
          if (c < in.c) sums[c] += weight * value(sample, px, py, c);
      }
    }
    MILLRACE_UNROLL
    for (int c = 0; c < kMaxChannels; ++c) {
      const float v =
          (sums[c] - fill[c]) * mask + fill[c];  // torchvision counts the border twice; so does this
      values[c] = in.type == base::DType::u8 ? clamped(rintf(v), 0.0f, 255.0f) : v;
    }
  }
};

// Colour jitter; grey_sums comes before it where a sample has contrast. One channel: brightness and contrast
// only, as torchvision.
struct ColorKernel {
  BatchImages in, out;
  SampleRange samples;
  int64_t* grey_sums;  // by sample of the batch: the sum over pixels of the grey before contrast, in units of
                       // 1 / kGreyUnits
  JitterParams jitter[kChunkSamples];
  bool to_grey[kChunkSamples];  // all channels become the grey, at last

  // Whole numbers add up to the same sum in any order. Floats are of 0..1; a stray value counts as at most 4.
  static constexpr float kGreyUnits = 0x1p30f;
  MILLRACE_BOTH float units() const { return in.type == base::DType::u8 ? 1.0f : kGreyUnits; }

  MILLRACE_BOTH int64_t groups() const { return in.groups(); }
  MILLRACE_BOTH void operator()(int32_t i, int64_t g) const {
    const int32_t count = pixels_in_group(in, g), sample = samples.first + i;
    PixelGroup group;
    load_group(in, sample, g * kGroupPixels, count, group);
    float mean = 0;
    if (has_op(jitter[i], JitterParams::contrast))
      mean = static_cast<float>(static_cast<double>(grey_sums[sample]) /
                                (static_cast<double>(units()) * static_cast<double>(in.pixels())));
    for (int k = 0; k < count; ++k) {
      Rgb p = at(group, k);
      p = in.c == 1 ? one_channel(p, i, mean) : jittered(p, jitter[i], mean, in.range());
      if (to_grey[i] && in.c == 3) p.r = p.g = p.b = grey(p, in.range());
      group.v[0][k] = p.r, group.v[1][k] = p.g, group.v[2][k] = p.b;
    }
    store_group(out, sample, g * kGroupPixels, count, group);
  }

  // This group's share of grey_sums.
  MILLRACE_BOTH int64_t grey_sum(int32_t i, int64_t g) const {
    if (!has_op(jitter[i], JitterParams::contrast)) return 0;
    const int32_t count = pixels_in_group(in, g);
    PixelGroup group;
    load_group(in, samples.first + i, g * kGroupPixels, count, group);
    int64_t sum = 0;
    for (int k = 0; k < count; ++k) {
      const Rgb p = at(group, k);
      const float l = in.c == 1
                          ? one_channel(p, i, 0, JitterParams::contrast).r
                          : grey(jittered(p, jitter[i], 0, in.range(), JitterParams::contrast), in.range());
      sum +=
          static_cast<int64_t>(rintf(in.type == base::DType::u8 ? l : clamped(l, -4.0f, 4.0f) * kGreyUnits));
    }
    return sum;
  }

 private:
  MILLRACE_BOTH static Rgb at(const PixelGroup& group, int k) {
    return {group.v[0][k], group.v[1][k], group.v[2][k]};
  }
  MILLRACE_BOTH Rgb one_channel(Rgb p, int32_t i, float mean, uint8_t stop = 255) const {
    for (int o = 0; o < 4 && jitter[i].order[o] != stop; ++o) {
      if (jitter[i].order[o] == JitterParams::brightness) p = blended(0, p, jitter[i].factor[0], in.range());
      if (jitter[i].order[o] == JitterParams::contrast) p = blended(mean, p, jitter[i].factor[1], in.range());
    }
    return p;
  }
};

}  // namespace millrace::device
