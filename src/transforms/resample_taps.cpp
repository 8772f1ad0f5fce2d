#include "transforms/resample_taps.h"

#include <algorithm>
#include <cmath>

namespace millrace {
namespace {

// Both filters without branches: whether a tap lies in the support is a coin's toss to the branch predictor.
struct Triangle {
  static double at(double x) { return std::max(0.0, 1 - std::fabs(x)); }
};

// Keys' cubic convolution with a = -0.5, in Pillow's order of operations.
struct Cubic {
  static double at(double x) {
    constexpr double a = -0.5;
    x = std::fabs(x);
    const double inner = ((a + 2) * x - (a + 3)) * x * x + 1, outer = (((x - 5) * x + 8) * x - 4) * a;
    return x < 1 ? inner : x < 2 ? outer : 0;
  }
};

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

TapPair fixed_point_pair(double first, double second) {
  const auto fixed = [](double weight) { return static_cast<int32_t>(weight * (1 << kWeightBits) + std::copysign(0.5, weight)); };
  const int32_t a = fixed(first), b = fixed(second);
  constexpr int32_t low = (1 << kLowBits) - 1;
  return {{static_cast<int16_t>(a >> kLowBits), static_cast<int16_t>(b >> kLowBits)}, {static_cast<int16_t>(a & low), static_cast<int16_t>(b & low)}};
}

template <class Shape>
void fill_taps(const TapsRequest& r, const Filter& filter, Taps& taps) {
  const double inverse_stretch = 1.0 / filter.stretch;
  const int32_t width = 2 * taps.pairs;
  taps.unscaled.resize(width);
  double* const unscaled = taps.unscaled.data();
  TapPair* pairs = taps.weights.data();
  for (int32_t o = 0; o < taps.count; ++o, pairs += taps.pairs) {
    if (is_fill(r.indices[o])) continue;
    const double center = filter.center(r.indices[o]);
    const Support support = filter.bounds(r.in_size, r.indices[o]);
    const int32_t offset = support.start - r.window_start;
    const int32_t begin = r.mirrored ? r.window_size - (offset + support.count) : offset;
    // Surplus taps must read inside the input too, so those of the last outputs come first.
    const int32_t start = std::max(0, std::min(begin, r.window_size - width));
    taps.start[o] = start;

    // Pillow adds the weights up in the order of the inputs, so a mirrored list is gone through from its end.
    double sum = 0;
    for (int32_t k = 0; k < width; ++k) {
      const int32_t at = r.mirrored ? width - 1 - k : k;
      const int32_t tap = r.mirrored ? support.count - 1 - (at - (begin - start)) : at - (begin - start);
      const double weight = Shape::at((tap + support.start - center + 0.5) * inverse_stretch);
      unscaled[at] = tap >= 0 && tap < support.count ? weight : 0;
      sum += unscaled[at];
    }
    if (sum == 0) sum = 1;
    for (int32_t p = 0; p < taps.pairs; ++p) pairs[p] = fixed_point_pair(unscaled[2 * p] / sum, unscaled[2 * p + 1] / sum);
  }
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

  if (r.interpolation == Interpolation::bicubic) fill_taps<Cubic>(r, filter, taps);
  else fill_taps<Triangle>(r, filter, taps);
}

}  // namespace millrace
