#include "transforms/resample_taps.h"

#include <algorithm>
#include <cmath>

#include "transforms/filter_weights.h"
#include "transforms/kernels.h"

namespace millrace::transforms {
namespace {

struct Filter {
  double scale, stretch, support, begin;
  Filter(Interpolation interpolation, int32_t in_size, int32_t out_size, std::optional<Extent> extent = {})
      : scale(static_cast<double>(extent ? extent->end - extent->begin : in_size) / out_size),
        stretch(std::max(scale, 1.0)), support(filter_radius(interpolation) * stretch),
        begin(extent ? extent->begin : 0) {}

  double center(int32_t out_index) const { return begin + (out_index + 0.5) * scale; }
  Support bounds(int32_t in_size, int32_t out_index) const {
    // Pillow truncates a negative sum; the result is clamped in any case.
    const int32_t first = std::max(0, static_cast<int32_t>(center(out_index) - support + 0.5));
    const int32_t last = std::min(in_size, static_cast<int32_t>(center(out_index) + support + 0.5));
    return {first, last - first};
  }
};

}  // namespace

int tensor_weight_bits(Interpolation interpolation, int32_t in_size, int32_t out_size) {
  const Filter filter(interpolation, in_size, out_size);
  const double inverse_stretch = 1.0 / filter.stretch;
  double largest = 0;
  for (int32_t o = 0; o < out_size; ++o) {
    const Support support = filter.bounds(in_size, o);
    double sum = 0, most = 0;
    for (int32_t t = 0; t < support.count; ++t) {
      const double weight =
          filter_weight(interpolation, (t + support.start - filter.center(o) + 0.5) * inverse_stretch);
      sum += weight;
      most = std::max(most, weight);
    }
    if (sum != 0) largest = std::max(largest, most / sum);
  }
  int bits = 0;
  while (bits < kWeightBits && static_cast<int32_t>(0.5 + largest * (1 << (bits + 1))) < 1 << 15) ++bits;
  return bits;
}

void TapPlaces::resize(int32_t outputs) {
  const size_t room = (static_cast<size_t>(outputs) + kPadding - 1) / kPadding * kPadding;
  for (auto* column : {&center, &first, &count, &shift}) column->assign(room, 0);
}

Support support_of(Interpolation interpolation, int32_t in_size, int32_t out_size, int32_t out_index,
                   std::optional<Extent> extent) {
  return Filter(interpolation, in_size, out_size, extent).bounds(in_size, out_index);
}

void make_taps(const TapsRequest& r, Taps& taps) {
  const Filter filter(r.interpolation, r.in_size, r.out_size, r.extent);
  taps.count = static_cast<int32_t>(r.indices.size());
  taps.in_size = r.window_size;
  TapPlaces& places = taps.places;
  places.resize(taps.count);
  places.inverse_stretch = 1.0 / filter.stretch;
  places.filter = r.interpolation;
  places.mirrored = r.mirrored;
  places.fraction_bits =
      r.of_tensor ? tensor_weight_bits(r.interpolation, r.in_size, r.out_size) : kWeightBits;

  const size_t room = (static_cast<size_t>(taps.count) + kTapGroup - 1) / kTapGroup * kTapGroup;
  taps.start.assign(room, 0);
  int32_t most = 1;
  for (int32_t o = 0; o < taps.count; ++o) {
    if (is_fill(r.indices[o])) continue;
    const Support support = filter.bounds(r.in_size, r.indices[o]);
    places.center[o] = filter.center(r.indices[o]);
    places.first[o] = support.start;
    places.count[o] = support.count;
    const int32_t begin = support.start - r.window_start;
    taps.start[o] = r.mirrored ? r.window_size - (begin + support.count) : begin;
    most = std::max(most, support.count);
  }
  taps.pairs = (most + 1) / 2;
  // Surplus taps must read inside the input too, so for the last outputs they come before the other taps.
  const int32_t last_start = std::max(0, r.window_size - 2 * taps.pairs);
  for (int32_t o = 0; o < taps.count; ++o) {
    const int32_t start = std::min(taps.start[o], last_start);
    places.shift[o] = taps.start[o] - start;
    taps.start[o] = start;
  }
  taps.weights.assign(room * taps.pairs, TapPair{});
  weigh_taps(taps);
}

}  // namespace millrace::transforms
