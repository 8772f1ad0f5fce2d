// The kernels of kernels.h written plainly. The vector versions must equal them bit for bit; they run where
// there is no vector version.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/geometry.h"
#include "transforms/filter_weights.h"
#include "transforms/kernels.h"

namespace millrace::transforms::scalar {
namespace {

// The sums run modulo 2^32, as the vector units' do; the total always fits.
struct Sum {
  uint32_t high = 0, low = 0;
  void add(uint8_t value, const TapPair& pair, int which) {
    high += static_cast<uint32_t>(value * pair.high[which]);
    low += static_cast<uint32_t>(value * pair.low[which]);
  }
  uint8_t rounded() const {
    const auto total = static_cast<int32_t>((high << kLowBits) + low + (1u << (kWeightBits - 1)));
    return static_cast<uint8_t>(std::clamp(total >> kWeightBits, 0, 255));
  }
};

void set_weight(TapPair* pairs, int32_t tap, double weight, int fraction_bits) {
  const auto rounded = static_cast<int32_t>(weight * (1 << fraction_bits) + std::copysign(0.5, weight));
  const int32_t fixed = rounded * (1 << (kWeightBits - fraction_bits));
  pairs[tap / 2].high[tap % 2] = static_cast<int16_t>(fixed >> kLowBits);
  pairs[tap / 2].low[tap % 2] = static_cast<int16_t>(fixed & ((1 << kLowBits) - 1));
}

template <class T>
void store_row_as(const uint8_t* row, int32_t width, const ValueTable& table, void* const* planes) {
  const size_t step = table.interleaved ? 3 : 1;
  for (int c = 0; c < 3; ++c) {
    auto* plane = static_cast<uint8_t*>(planes[c]);  // bytes: a caller's tensor need not be aligned
    for (int32_t x = 0; x < width; ++x) {
      const T value = table.value<T>(c, row[x * base::kPixelBytes + c]);
      std::memcpy(plane + x * step * sizeof(T), &value, sizeof(T));
    }
  }
}

}  // namespace

void weigh_taps(Taps& taps) {
  TapPlaces& places = taps.places;
  for (int32_t o = 0; o < taps.count; ++o) {
    const auto count = static_cast<int32_t>(places.count[o]), shift = static_cast<int32_t>(places.shift[o]);
    places.unscaled.resize(count);
    double sum = 0;
    for (int32_t t = 0; t < count; ++t) {
      const double x = (t + places.first[o] - places.center[o] + 0.5) * places.inverse_stretch;
      places.unscaled[t] = filter_weight(places.filter, x);
      sum += places.unscaled[t];
    }
    TapPair* pairs = taps.weights.data() + int64_t{o} * taps.pairs;
    for (int32_t t = 0; t < count; ++t)
      set_weight(pairs, shift + (places.mirrored ? count - 1 - t : t),
                 sum != 0 ? places.unscaled[t] / sum : places.unscaled[t], places.fraction_bits);
  }
}

void resample_rows(const uint8_t* const* rows, int n_rows, const Taps& taps, uint8_t* const* outs) {
  for (int r = 0; r < n_rows; ++r)
    for (int32_t o = 0; o < taps.count; ++o) {
      Sum sums[base::kPixelBytes];
      int32_t x = taps.start[o];
      for (const TapPair& pair : taps.of(o))
        for (int which = 0; which < 2; ++which, ++x) {
          const uint8_t* pixel = rows[r] + int64_t{std::min(x, taps.in_size - 1)} * base::kPixelBytes;
          for (int c = 0; c < base::kPixelBytes; ++c) sums[c].add(pixel[c], pair, which);
        }
      for (int c = 0; c < base::kPixelBytes; ++c)
        outs[r][int64_t{o} * base::kPixelBytes + c] = sums[c].rounded();
    }
}

void blend_rows(const uint8_t* const* rows, const TapPair* weights, int n_pairs, int32_t width,
                uint8_t* out) {
  for (int64_t i = 0; i < int64_t{width} * base::kPixelBytes; ++i) {
    Sum sum;
    for (int t = 0; t < 2 * n_pairs; ++t) sum.add(rows[t][i], weights[t / 2], t % 2);
    out[i] = sum.rounded();
  }
}

void store_row(const uint8_t* row, int32_t width, const ValueTable& table, void* const* planes) {
  switch (base::dtype_bytes(table.type)) {
    case 1: return store_row_as<uint8_t>(row, width, table, planes);
    case 2: return store_row_as<uint16_t>(row, width, table, planes);
    case 4: return store_row_as<float>(row, width, table, planes);
    default: return store_row_as<double>(row, width, table, planes);
  }
}

void blend_to_planes(const uint8_t* const* rows, const TapPair* weights, int n_pairs, int32_t width,
                     const ValueTable& table, void* const* planes) {
  const int64_t step = table.interleaved ? 3 : 1;
  for (int32_t x = 0; x < width; ++x)
    for (int c = 0; c < 3; ++c) {
      Sum sum;
      for (int t = 0; t < 2 * n_pairs; ++t)
        sum.add(rows[t][int64_t{x} * base::kPixelBytes + c], weights[t / 2], t % 2);
      static_cast<float*>(planes[c])[x * step] = table.value<float>(c, sum.rounded());
    }
}

void mix_to_planes(const uint8_t* own_row, const uint8_t* other_row, int32_t width, const ValueTable& table,
                   float own, float other, void* const* planes) {
  for (int c = 0; c < 3; ++c)
    for (int32_t x = 0; x < width; ++x) {
      const int64_t at = int64_t{x} * base::kPixelBytes + c;
      const float first = table.value<float>(c, own_row[at]) * own,
                  second = table.value<float>(c, other_row[at]) * other;
      static_cast<float*>(planes[c])[x] = first + second;
    }
}

}  // namespace millrace::transforms::scalar
