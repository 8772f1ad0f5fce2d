// The three steps of fused_augment() as kernels: the resize's weights, the resize, and the colours of
// pictures with contrast, which needs their mean grey first. batch_kernels.h says how kernels are made.
//
// The resize equals Pillow's to the bit, with any of its filters: antialiased, with 8-bit pixels between the
// horizontal and the vertical pass, in the order of Pillow 13. Or it equals torch's resize of byte tensors:
// weights of fewer bits (axis_weights.h), horizontal first. The weights include flips and the position in the
// resized picture.
#pragma once

#include <cmath>
#include <cstdint>

#include "device/axis_weights.h"
#include "device/batch_images.h"
#include "device/batch_kernels.h"

namespace millrace::device {

inline constexpr int32_t kFusedSamples = 38;  // as many as an argument has room for

struct FusedParams {
  const uint8_t* pixels;  // the crop's first
  uint32_t* picture;      // RGBX of the result's size, of those that wait for their mean or go through steps
  int32_t width, height;  // of the result, along the axes of `pixels`
  int32_t pitch, pixel_bytes;
  int32_t in_width, in_height;  // of the crop
  int32_t resized_width, resized_height;
  int32_t left, top;         // of the result in the resized picture
  int32_t x_table, y_table;  // where the weights begin in FusedKernel::table
  uint16_t x_taps, y_taps;   // weights of every output; the surplus is zero
  Interpolation filter;
  bool vertical_first, flip_x, flip_y, input_flip_x, input_flip_y, to_grey;
  bool transposed;           // the result's columns become rows at last
  uint8_t x_shift, y_shift;  // of the weights' fractional bits, how many are rounded off
  JitterParams jitter;

  MILLRACE_BOTH bool waits_for_mean() const { return has_op(jitter, JitterParams::contrast); }
  MILLRACE_BOTH AxisResize across() const {
    return {width, left, in_width, resized_width, x_taps, filter, flip_x, input_flip_x, x_shift};
  }
  MILLRACE_BOTH AxisResize down() const {
    return {height, top, in_height, resized_height, y_taps, filter, flip_y, input_flip_y, y_shift};
  }
};

struct FusedKernel {
  BatchImages out;
  SampleRange samples;
  int32_t* table;  // per sample and axis: the first input of each output, then the outputs' first weights,
                   // their second, ...
  int64_t* grey_sums;               // by sample of the batch
  int32_t most_width, most_height;  // of the samples' results
  float scale[kMaxChannels], shift[kMaxChannels];
  FusedParams params[kFusedSamples];

  // A pixel of the resize. The result is its part of the sample's grey sum.
  MILLRACE_BOTH int32_t emit(int32_t i, int32_t x, int32_t y, Rgb8 p) const {
    const FusedParams& sample = params[i];
    const int64_t pixel = sample.transposed ? int64_t{x} * sample.height + y : int64_t{y} * sample.width + x;
    if (sample.picture != nullptr) {
      sample.picture[pixel] = static_cast<uint32_t>(p.r | p.g << 8 | p.b << 16);
      return sample.waits_for_mean() ? grey8(jittered8(p, sample.jitter, 0, JitterParams::contrast)) : 0;
    }
    p = coloured(i, p, 0);
    const int32_t values[] = {p.r, p.g, p.b};
    MILLRACE_UNROLL
    for (int32_t c = 0; c < kMaxChannels; ++c)
      store_element(out.data, out.type, out.element(samples.first + i, pixel, c),
                    static_cast<float>(values[c]) * scale[c] + shift[c]);
    return 0;
  }

  MILLRACE_BOTH Rgb8 coloured(int32_t i, Rgb8 p, int32_t mean) const {
    p = jittered8(p, params[i].jitter, mean);
    if (params[i].to_grey) p.r = p.g = p.b = grey8(p);
    return p;
  }
};
static_assert(sizeof(FusedKernel) + sizeof(int32_t) <= kMostKernelBytes, "a further argument is an int32_t");

// Fills the table, an output of an axis at a time, and clears the sums.
struct WeightsKernel : FusedKernel {
  MILLRACE_BOTH int64_t groups() const { return most_width + most_height; }
  MILLRACE_BOTH void operator()(int32_t i, int64_t g) const {
    const FusedParams& p = params[i];
    if (g == 0) grey_sums[samples.first + i] = 0;
    if (g < p.width)
      weigh_output(p.across(), static_cast<int32_t>(g), table + p.x_table);
    else if (g < p.width + p.height)
      weigh_output(p.down(), static_cast<int32_t>(g) - p.width, table + p.y_table);
  }
};

// The colours of samples that waited for their mean.
struct FinishKernel : FusedKernel {
  MILLRACE_BOTH int64_t groups() const { return out.groups(); }
  MILLRACE_BOTH void operator()(int32_t i, int64_t g) const {
    if (!params[i].waits_for_mean()) return;
    const int32_t sample = samples.first + i, count = pixels_in_group(out, g);
    const int64_t pixels = out.pixels();
    const auto mean =
        static_cast<int32_t>((2 * grey_sums[sample] + pixels) / (2 * pixels));  // rounded, halves up
    PixelGroup group;
    for (int k = 0; k < count; ++k) {
      const uint32_t word = params[i].picture[g * kGroupPixels + k];
      const Rgb8 in{static_cast<int32_t>(word & 0xFF), static_cast<int32_t>(word >> 8 & 0xFF),
                    static_cast<int32_t>(word >> 16 & 0xFF)};
      const Rgb8 p = coloured(i, in, mean);
      group.v[0][k] = static_cast<float>(p.r) * scale[0] + shift[0];
      group.v[1][k] = static_cast<float>(p.g) * scale[1] + shift[1];
      group.v[2][k] = static_cast<float>(p.b) * scale[2] + shift[2];
    }
    store_group(out, sample, g * kGroupPixels, count, group);
  }
};

// The resize between the two has a shape of its own (kernel_launch.h: resample). A block of the GPU's makes
// tiles of this many outputs a side, its inputs in at most so much shared memory.
inline constexpr int32_t kTile = 32, kMostStageBytes = 40 << 10;

// Bytes of one row of inputs there, as blocks of 16 that begin at any byte.
MILLRACE_BOTH inline int32_t staged_row_bytes(int32_t columns, int32_t pixel_bytes) {
  return (columns * pixel_bytes + 30) / 16 * 16;
}

}  // namespace millrace::device
