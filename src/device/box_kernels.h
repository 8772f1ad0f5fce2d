// Kernels that treat a box in each picture apart: erasing, mixup and cutmix. batch_kernels.h says how kernels
// are made.
#pragma once

#include <cstdint>

#include "device/batch_kernels.h"

namespace millrace::device {

struct KernelBox {
  int32_t left = 0, top = 0, right = 0, bottom = 0;
  MILLRACE_BOTH bool holds(int64_t pixel, int32_t width) const {
    const auto y = static_cast<int32_t>(pixel / width), x = static_cast<int32_t>(pixel - int64_t{y} * width);
    return x >= left && x < right && y >= top && y < bottom;
  }
  MILLRACE_BOTH bool empty() const { return left >= right || top >= bottom; }
};

struct EraseKernel {
  BatchImages in, out;  // may be the same
  SampleRange samples;
  bool noise;  // normal noise instead of `value`
  uint64_t seed;
  float value[kMaxChannels];
  KernelBox box[kChunkSamples];

  MILLRACE_BOTH int64_t groups() const { return in.groups(); }
  MILLRACE_BOTH void operator()(int32_t i, int64_t g) const {
    const int32_t count = pixels_in_group(in, g), sample = samples.first + i;
    PixelGroup group;
    load_group(in, sample, g * kGroupPixels, count, group);
    if (!box[i].empty()) {
      MILLRACE_UNROLL
      for (int k = 0; k < kGroupPixels; ++k) {
        const int64_t pixel = g * kGroupPixels + k;
        if (!box[i].holds(pixel, in.w)) continue;
        const Normals drawn =
            noise ? normals_of(seed, static_cast<uint32_t>(sample), static_cast<uint64_t>(pixel)) : Normals{};
        MILLRACE_UNROLL
        for (int c = 0; c < kMaxChannels; ++c) group.v[c][k] = noise ? drawn.v[c] : value[c];
      }
    }
    store_group(out, sample, g * kGroupPixels, count, group);
  }
};

// out = in * share + partner * (1 - share), and the partner alone inside the box: mixup has no box, cutmix a
// share of 1.
struct MixKernel {
  BatchImages in, out;  // not the same
  SampleRange samples;
  struct Mix {
    int32_t partner = 0;  // sample of the batch
    float share = 1;
    KernelBox box;
  } mix[kChunkSamples];

  MILLRACE_BOTH int64_t groups() const { return in.groups(); }
  MILLRACE_BOTH void operator()(int32_t i, int64_t g) const {
    const int32_t count = pixels_in_group(in, g), sample = samples.first + i;
    const int64_t pixel = g * kGroupPixels;
    PixelGroup group, partner;
    load_group(in, sample, pixel, count, group);
    if (mix[i].share != 1 || !mix[i].box.empty()) {
      load_group(in, mix[i].partner, pixel, count, partner);
      MILLRACE_UNROLL
      for (int k = 0; k < kGroupPixels; ++k) {
        const bool boxed = !mix[i].box.empty() && mix[i].box.holds(pixel + k, in.w);
        MILLRACE_UNROLL
        for (int c = 0; c < kMaxChannels; ++c) {
          const float rest = mix[i].share != 1 ? partner.v[c][k] * (1.0f - mix[i].share) : 0.0f;
          group.v[c][k] = boxed ? partner.v[c][k] : group.v[c][k] * mix[i].share + rest;
        }
      }
    }
    store_group(out, sample, pixel, count, group);
  }
};

}  // namespace millrace::device
