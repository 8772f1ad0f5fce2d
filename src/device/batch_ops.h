// Operations on batches that already lie on a device or on the CPU: one function for each operation. The
// parameters, one per sample, are drawn before.
//
// Meaning and rounding are those of torchvision's functions on tensors, sample by sample. `in` and `out` have
// the same n, c, h, w and, but for normalize(), the same element type: uint8 (0..255), float16, bfloat16 or
// float32 (0..1 where colours are meant). They must not overlap; erase() alone may have in == out. Cost: one
// read and one write of the batch; contrast reads it twice. Any thread; on a CUDA device the work is enqueued
// on the stream and the parameters have been copied when the function returns. Throw Error(invalid_argument)
// naming what does not fit, Error(unavailable) when the device cannot be used.
#pragma once

#include <cstdint>
#include <span>

#include "base/geometry.h"
#include "device/batch_images.h"
#include "device/kernel_launch.h"
#include "transforms/params.h"

namespace millrace::device {

// uint8: (v / 255 - mean) / std; floats: (v - mean) / std. One mean and std per channel. To a float type, in
// any layout; arithmetic in f32 with the scale and shift of each channel combined, so the last bits differ
// from torch's, and narrow types are rounded once.
void normalize(const BatchImages& in, const BatchImages& out, std::span<const double> mean,
               std::span<const double> std, const Place& place);

void flip_horizontal(const BatchImages& in, const BatchImages& out, std::span<const uint8_t> flipped,
                     const Place& place);

// `fill`: one value, or one per channel.
void affine(const BatchImages& in, const BatchImages& out, std::span<const transforms::InverseAffine> inverse,
            bool bilinear, std::span<const double> fill, const Place& place);

// `to_grey`: one per sample, after the jitter. `grey_sums`: room for n numbers at the place, all 0; used up
// by the call.
void color_jitter(const BatchImages& in, const BatchImages& out,
                  std::span<const transforms::ColorJitterParams> jitter, std::span<const uint8_t> to_grey,
                  int64_t* grey_sums, const Place& place);

// As kernels take it. Throws when a factor is out of its range.
JitterParams jitter_params(const transforms::ColorJitterParams& params);

// Empty boxes erase nothing. `value`: one, or one per channel; none: normal noise, a function of `seed`
// (float types only).
void erase(const BatchImages& in, const BatchImages& out, std::span<const base::Rect> boxes,
           std::span<const double> value, uint64_t seed, const Place& place);

// out = share * in + (1 - share) * partner, and the partner alone inside the box. Shares other than 1 need a
// float type.
struct MixParams {
  int64_t partner = 0;  // sample of the batch
  double share = 1;     // 0..1
  base::Rect box{};
};
void mix(const BatchImages& in, const BatchImages& out, std::span<const MixParams> mix, const Place& place);

}  // namespace millrace::device
