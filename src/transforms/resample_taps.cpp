#include "transforms/resample_taps.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace millrace {
namespace {

double triangle(double x) {
  x = std::fabs(x);
  return x < 1 ? 1 - x : 0;
}

// Keys' cubic convolution with a = -0.5, in Pillow's order of operations.
double cubic(double x) {
  constexpr double a = -0.5;
  x = std::fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

struct Filter {
  double scale, stretch, support;
  Filter(Interpolation interpolation, int32_t in_size, int32_t out_size)
      : scale(static_cast<double>(in_size) / out_size), stretch(std::max(scale, 1.0)),
        support((interpolation == Interpolation::bicubic ? 2.0 : 1.0) * stretch) {}

  double center(int32_t out_index) const { return (out_index + 0.5) * scale; }
  Support bounds(int32_t in_size, int32_t out_index) const {
    // Truncation of a negative sum is what Pillow does, and clamps all the same.
    const int32_t first = std::max(0, static_cast<int32_t>(center(out_index) - support + 0.5));
    const int32_t last = std::min(in_size, static_cast<int32_t>(center(out_index) + support + 0.5));
    return {first, last - first};
  }
};

int32_t fixed_point(double weight) {
  constexpr double one = 1 << kWeightBits;
  return static_cast<int32_t>(weight < 0 ? weight * one - 0.5 : weight * one + 0.5);
}

void set_weight(TapPair* pairs, int32_t tap, int32_t weight) {
  pairs[tap / 2].high[tap % 2] = static_cast<int16_t>(weight >> kLowBits);
  pairs[tap / 2].low[tap % 2] = static_cast<int16_t>(weight & ((1 << kLowBits) - 1));
}

}  // namespace

Support support_of(Interpolation interpolation, int32_t in_size, int32_t out_size, int32_t out_index) {
  return Filter(interpolation, in_size, out_size).bounds(in_size, out_index);
}

void make_taps(const TapsRequest& r, Taps& taps) {
  const Filter filter(r.interpolation, r.in_size, r.out_size);
  taps.count = static_cast<int32_t>(r.indices.size());
  taps.in_size = r.window_size;
  int32_t most = 1;
  for (const int32_t index : r.indices)
    if (!is_fill(index)) most = std::max(most, filter.bounds(r.in_size, index).count);
  taps.pairs = (most + 1) / 2;
  const size_t room = (size_t(taps.count) + kTapGroup - 1) / kTapGroup * kTapGroup;
  taps.start.assign(room, 0);
  taps.weights.assign(room * taps.pairs, TapPair{});

  thread_local std::vector<double> unscaled;
  unscaled.resize(most);
  const double inverse_stretch = 1.0 / filter.stretch;
  for (int32_t o = 0; o < taps.count; ++o) {
    if (is_fill(r.indices[o])) continue;
    const double center = filter.center(r.indices[o]);
    const Support support = filter.bounds(r.in_size, r.indices[o]);
    double sum = 0;
    for (int32_t t = 0; t < support.count; ++t) {
      const double x = (t + support.start - center + 0.5) * inverse_stretch;
      unscaled[t] = r.interpolation == Interpolation::bicubic ? cubic(x) : triangle(x);
      sum += unscaled[t];
    }
    const int32_t offset = support.start - r.window_start;
    const int32_t begin = r.mirrored ? r.window_size - (offset + support.count) : offset;
    // Surplus taps must read inside the input too, so those of the last outputs come first.
    taps.start[o] = std::max(0, std::min(begin, r.window_size - 2 * taps.pairs));
    const int32_t shift = begin - taps.start[o];
    TapPair* pairs = taps.weights.data() + int64_t{o} * taps.pairs;
    for (int32_t t = 0; t < support.count; ++t) {
      const double weight = sum != 0 ? unscaled[t] / sum : unscaled[t];
      set_weight(pairs, shift + (r.mirrored ? support.count - 1 - t : t), fixed_point(weight));
    }
  }
}

}  // namespace millrace
