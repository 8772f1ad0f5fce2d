// Taps: which input samples make one output sample of a resize along one axis, and how much each counts.
// Pillow's weights to the last bit, or those of torch's resize of tensors of bytes.
//
// Algorithm: Pillow's two-pass convolution. The filter is stretched by the scale when shrinking
// (antialiasing), its weights are computed and normalised in f64, then rounded to fixed point with 22
// fractional bits. A weight is kept in two 16-bit parts, weight = high * 2^11 + low, because vector units
// multiply and add pairs of 16-bit numbers; the sums stay exact. torch rounds weights to 16 bits instead,
// with as many fractional bits as the axis' largest weight leaves room for. Such a weight shifted left to 22
// fractional bits gives the same pixels, because the sum and the rounding term are shifted too.
// Buffers are reused from sample to sample; one owner, one thread. Cost: about 10 ns an output.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "millrace/transform_spec.h"
#include "transforms/index_list.h"

namespace millrace::transforms {

inline constexpr int kWeightBits = 22, kLowBits = 11;

// Two neighbouring weights. A kernel reads `high` or `low` as one 32-bit lane.
struct TapPair {
  int16_t high[2], low[2];
};

// The inputs under the filter for one output.
struct Support {
  int32_t start = 0, count = 0;
  int32_t end() const { return start + count; }
};
// The part of an axis that is resized: Pillow's box, with f32 sides as in Pillow. Inputs outside of it count
// if the filter reaches them.
struct Extent {
  float begin = 0, end = 0;
};
// Returns the inputs under the filter for output `out_index`. Without `extent`, all of the axis is resized.
// `interpolation`: any but nearest.
Support support_of(Interpolation interpolation, int32_t in_size, int32_t out_size, int32_t out_index,
                   std::optional<Extent> extent = {});

// The fractional bits of the weights of torch's resize of tensors of bytes along one axis: as many as leave
// its largest weight below 2^15.
int tensor_weight_bits(Interpolation interpolation, int32_t in_size, int32_t out_size);

// Kernels make outputs in groups of this many; the surplus ones of the last group have weight zero.
inline constexpr int kTapGroup = 4;

// The places of each output's taps, as columns of f64; weigh_taps() (kernels.h) makes the weights from them.
// Entries past the last output have count 0.
struct TapPlaces {
  static constexpr int32_t kPadding = 8;  // the length of the columns is a multiple of this
  std::vector<double> center;             // of the filter, in the coordinates of the whole input
  std::vector<double> first, count;       // the inputs under the filter
  std::vector<double>
      shift;  // from the first tap to the first input's weight (the last input's, if mirrored)
  std::vector<double> unscaled;  // weigh_taps() works in it
  double inverse_stretch = 1;
  int fraction_bits = kWeightBits;  // that weights are rounded to, before they are shifted to kWeightBits
  Interpolation filter = Interpolation::bilinear;
  bool mirrored = false;

  void resize(int32_t outputs);
};

struct Taps {
  int32_t count = 0;             // outputs
  int32_t pairs = 0;             // tap pairs of every output; the surplus has weight zero
  int32_t in_size = 0;           // inputs, all taps with a weight lie inside
  std::vector<int32_t> start;    // per output: the input of the first tap
  std::vector<TapPair> weights;  // per output: `pairs` of them
  TapPlaces places;              // make_taps() works in it

  std::span<const TapPair> of(int32_t output) const {
    return {weights.data() + int64_t{output} * pairs, static_cast<size_t>(pairs)};
  }
};

// The taps of the outputs `indices` (any order; fill indices get weight zero) of a resize from in_size to
// out_size, for an input that is only the window [window_start, window_start + window_size), stored backwards
// if `mirrored`.
struct TapsRequest {
  Interpolation interpolation;
  int32_t in_size, out_size;
  std::span<const int32_t> indices;
  int32_t window_start, window_size;
  bool mirrored;
  bool of_tensor = false;  // weights as torch's
  std::optional<Extent> extent = {};
};
void make_taps(const TapsRequest& request, Taps& taps);

}  // namespace millrace::transforms
