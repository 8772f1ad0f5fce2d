// Passes that look along whole lines or at whole pictures: resizes, blurs, and tables made of how often each
// byte occurs; and the kernels that bring passes to the device and results into the batch. pass_kernels.h has
// the other passes.
#pragma once

#include <cmath>
#include <cstdint>

#include "device/pass.h"
#include "transforms/level_tables.h"
#include "transforms/pixel_places.h"

namespace millrace::device {

// A resize along one axis: a group of its weights is an output, of the picture eight pixels.
struct ResizeKernel : PassKernel {
  MILLRACE_BOTH void operator()(int32_t i, int64_t g) const {
    const Pass& p = passes[samples.first + i];
    if (p.kind == PassKind::resize_weights) {
      if (g < p.axis.outputs) weigh_output(p.axis, static_cast<int32_t>(g), p.table);
      return;
    }
    const bool across = p.kind == PassKind::resize_across;
    const int64_t stride = across ? 1 : p.in_width;
    for_pixels(p, g, [&](int64_t at, int32_t x, int32_t y) {
      const int32_t o = across ? x : y, outputs = p.axis.outputs;
      const uint32_t* in =
          p.slot(p.from) + (across ? int64_t{y} * p.in_width : int64_t{x}) + p.table[o] * stride;
      const int32_t* weight = p.table + outputs + o;
      int32_t r = 0, green = 0, b = 0;
      for (int32_t t = 0; t < p.axis.taps; ++t, in += stride, weight += outputs) {
        const Rgb8 v = unpacked(*in);
        r += *weight * v.r, green += *weight * v.g, b += *weight * v.b;
      }
      p.slot(p.to)[at] = packed({filtered(r), filtered(green), filtered(b)});
    });
  }
};

// A group is eight neighbours of a line, for box blurs across or down, or of the picture.
struct BlurKernel : PassKernel {
  MILLRACE_BOTH void operator()(int32_t i, int64_t g) const {
    const Pass& p = passes[samples.first + i];
    if (g >= p.groups()) return;
    switch (p.kind) {
      case PassKind::box_across: {
        const int64_t parts = (p.width + kGroupPixels - 1) / kGroupPixels, y = g / parts;
        return box(p, y * p.width, 1, p.width, static_cast<int32_t>(g - y * parts) * kGroupPixels);
      }
      case PassKind::box_down: {
        const int64_t part = g / p.width;
        return box(p, g - part * p.width, p.width, p.height, static_cast<int32_t>(part) * kGroupPixels);
      }
      case PassKind::weigh_down: return weigh_down(p, g);
      default: return weigh_across(p, g);
    }
  }

 private:
  struct Sum {
    uint32_t r = 0, g = 0, b = 0;
    MILLRACE_BOTH void add(uint32_t word, uint32_t times = 1) {
      r += (word & 0xFF) * times, g += (word >> 8 & 0xFF) * times, b += (word >> 16 & 0xFF) * times;
    }
    MILLRACE_BOTH void subtract(uint32_t word) {
      r -= word & 0xFF, g -= word >> 8 & 0xFF, b -= word >> 16 & 0xFF;
    }
  };
  // Outputs from `begin` on of a line of `size` pixels, `stride` apart.
  MILLRACE_BOTH static void box(const Pass& p, int64_t line, int64_t stride, int32_t size, int32_t begin) {
    const uint32_t* const in = p.slot(p.from) + line;
    uint32_t* const out = p.slot(p.to) + line;
    const int32_t reach = p.box.reach, last = size - 1;
    const auto at = [&](int32_t i) { return in[(i < 0 ? 0 : i < last ? i : last) * stride]; };
    const int32_t low = begin - reach, high = begin + reach;
    Sum sum;
    if (low < 0) sum.add(in[0], static_cast<uint32_t>(-low));
    if (high > last) sum.add(in[last * stride], static_cast<uint32_t>(high - last));
    for (int32_t i = low < 0 ? 0 : low; i <= high && i <= last; ++i) sum.add(in[i * stride]);
    for (int32_t o = begin; o < begin + kGroupPixels && o < size; ++o) {
      const uint32_t behind = at(o + reach + 1);
      Sum far;
      far.add(at(o - reach - 1));
      far.add(behind);
      out[o * stride] = transforms::box_level(sum.r, far.r, p.box) |
                        transforms::box_level(sum.g, far.g, p.box) << 8 |
                        transforms::box_level(sum.b, far.b, p.box) << 16;
      sum.add(behind);
      sum.subtract(at(o - reach));
    }
  }

  // First tap first, products and sums rounded one by one.
  MILLRACE_BOTH static void weigh_down(const Pass& p, int64_t g) {
    const uint32_t* const in = p.slot(p.from);
    for_pixels(p, g, [&](int64_t at, int32_t x, int32_t y) {
      float r = 0, green = 0, b = 0;
      for (int32_t t = 0; t < p.taps; ++t) {
        const Rgb8 v = unpacked(in[int64_t{reflected(y + t - p.taps / 2, p.height)} * p.width + x]);
        const float weight = p.weights[t];
        r += weight * static_cast<float>(v.r);
        green += weight * static_cast<float>(v.g);
        b += weight * static_cast<float>(v.b);
      }
      float* const out = p.sums + 3 * at;
      out[0] = r, out[1] = green, out[2] = b;
    });
  }
  MILLRACE_BOTH static void weigh_across(const Pass& p, int64_t g) {
    for_pixels(p, g, [&](int64_t at, int32_t x, int32_t) {
      const float* const row = p.sums + 3 * (at - x);
      float r = 0, green = 0, b = 0;
      for (int32_t t = 0; t < p.taps; ++t) {
        const float* const in = row + 3 * int64_t{reflected(x + t - p.taps / 2, p.width)};
        const float weight = p.weights[t];
        r += weight * in[0];
        green += weight * in[1];
        b += weight * in[2];
      }
      const auto level = [](float sum) { return static_cast<int32_t>(rintf(fminf(sum, 255.0f))); };
      p.slot(p.to)[at] = packed({level(r), level(green), level(b)});
    });
  }
  MILLRACE_BOTH static int32_t reflected(int32_t i, int32_t size) {
    return transforms::padded_place(i, size, PaddingMode::reflect, 0);
  }
};

// count_levels() (kernel_launch.h) runs this and knows how several threads add to one entry.
struct CountKernel : PassKernel {
  // Calls add(entry of Levels::counts) for the bytes of a group.
  template <class Add>
  MILLRACE_BOTH void operator()(int32_t i, int64_t g, Add&& add) const {
    const Pass& p = passes[samples.first + i];
    for_pixels(p, g, [&](int64_t at, int32_t, int32_t) {
      const Rgb8 v = unpacked(p.slot(p.from)[at]);
      if (p.kind == PassKind::count_grey) return add(grey8(v));
      add(v.r);
      add(256 + v.g);
      add(512 + v.b);
    });
  }
};

// A group is a channel.
struct TableKernel : PassKernel {
  MILLRACE_BOTH void operator()(int32_t i, int64_t g) const {
    const Pass& p = passes[samples.first + i];
    const uint32_t* const counts = p.levels->counts + (p.kind == PassKind::contrast_table ? 0 : 256 * g);
    uint8_t* const table = p.levels->table + 256 * g;
    switch (p.kind) {
      case PassKind::contrast_table:
        return transforms::contrast_table(counts, p.width, p.height, p.factor, table);
      case PassKind::equalize_table: return transforms::equalize_table(counts, table);
      default: return transforms::autocontrast_table(counts, table);
    }
  }
};

// Writes finished pictures into the batch.
struct StoreKernel : PassKernel {
  BatchImages out;
  float scale[kMaxChannels], shift[kMaxChannels];

  MILLRACE_BOTH void operator()(int32_t i, int64_t g) const {
    const Pass& p = passes[samples.first + i];
    const int32_t count = pixels_in_group(out, g);
    PixelGroup group;
    MILLRACE_UNROLL
    for (int k = 0; k < kGroupPixels; ++k) {
      if (k >= count) break;
      const Rgb8 v = unpacked(p.slot(p.from)[g * kGroupPixels + k]);
      group.v[0][k] = static_cast<float>(v.r) * scale[0] + shift[0];
      group.v[1][k] = static_cast<float>(v.g) * scale[1] + shift[1];
      group.v[2][k] = static_cast<float>(v.b) * scale[2] + shift[2];
    }
    store_group(out, p.sample, g * kGroupPixels, count, group);
  }
};

// Copies words from the host to the device inside the kernel's argument: in the stream's order, and without
// host memory that must stay until the copy is done.
struct UploadKernel {
  static constexpr int32_t kMostWords = 960, kGroupWords = 4;
  uint32_t* to;
  SampleRange samples;  // one
  int32_t count;
  uint32_t words[kMostWords];

  MILLRACE_BOTH int64_t groups() const { return (count + kGroupWords - 1) / kGroupWords; }
  MILLRACE_BOTH void operator()(int32_t, int64_t g) const {
    const auto begin = static_cast<int32_t>(g) * kGroupWords;
    for (int32_t i = begin; i < begin + kGroupWords && i < count; ++i) to[i] = words[i];
  }
};

struct ClearKernel {
  uint32_t* to;
  SampleRange samples;  // one
  int64_t count;

  MILLRACE_BOTH int64_t groups() const { return (count + kGroupPixels - 1) / kGroupPixels; }
  MILLRACE_BOTH void operator()(int32_t, int64_t g) const {
    for (int64_t i = g * kGroupPixels; i < (g + 1) * kGroupPixels && i < count; ++i) to[i] = 0;
  }
};

}  // namespace millrace::device
