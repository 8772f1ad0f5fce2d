// One pixel of an affine map, as Pillow's Image.transform(AFFINE) has it: for the CPU's plain version and for
// the GPU. Pure, any thread.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "transforms/byte_pixels.h"
#include "transforms/params.h"

namespace millrace::transforms {

// The nearest pixels of a map, in 16.16 fixed point: the pixel (column, row) shows the input's (x, y).
struct NearestMap {
  int64_t first_x, first_y, step_x, step_y, row_x, row_y;
  MILLRACE_BOTH int64_t x(int32_t column, int32_t row) const {
    return (first_x + row_x * row + step_x * column) >> 16;
  }
  MILLRACE_BOTH int64_t y(int32_t column, int32_t row) const {
    return (first_y + row_y * row + step_y * column) >> 16;
  }
};
NearestMap nearest_map(const InverseAffine& inverse);

// kTaps pixels each way, weighed by polynomials of the distance to the first of the middle two.
struct LinearFilter {
  static constexpr int kTaps = 2;
  MILLRACE_BOTH static double between(const double* v, double d) { return v[0] + (v[1] - v[0]) * d; }
};
struct CubicFilter {
  static constexpr int kTaps = 4;
  MILLRACE_BOTH static double between(const double* v, double d) {
    const double p2 = -v[0] + v[2], p3 = 2 * (v[0] - v[1]) + v[2] - v[3], p4 = -v[0] + v[1] - v[2] + v[3];
    return v[1] + d * (p2 + d * (p3 + d * p4));
  }
};

// Computes the pixel at a position inside of the picture. `at(x, y)`: the input's pixel, or the border's if
// (x, y) lies outside.
template <class Filter, class At>
MILLRACE_BOTH inline void smooth_pixel_at(double x, double y, At&& at, Rgb8& out) {
  constexpr int kTaps = Filter::kTaps;
  const double left = floor(x - 0.5), top = floor(y - 0.5);
  const auto first_x = static_cast<int32_t>(left) - (kTaps / 2 - 1),
             first_y = static_cast<int32_t>(top) - (kTaps / 2 - 1);
  double down[3][kTaps];
  MILLRACE_UNROLL
  for (int j = 0; j < kTaps; ++j) {
    double across[3][kTaps];
    MILLRACE_UNROLL
    for (int i = 0; i < kTaps; ++i) {
      const Rgb8 p = at(first_x + i, first_y + j);
      across[0][i] = p.r, across[1][i] = p.g, across[2][i] = p.b;
    }
    MILLRACE_UNROLL
    for (int c = 0; c < 3; ++c) down[c][j] = Filter::between(across[c], x - 0.5 - left);
  }
  int32_t levels[3];
  MILLRACE_UNROLL
  for (int c = 0; c < 3; ++c) {
    const double level = Filter::between(down[c], y - 0.5 - top);
    levels[c] = static_cast<int32_t>(level < 0.0 ? 0.0 : level > 255.0 ? 255.0 : level);
  }
  out = {levels[0], levels[1], levels[2]};
}

// A position in the input, as Pillow computes it for each kind of map.
struct MappedPlace {
  double x, y;
  // False for the result of a division by 0.
  MILLRACE_BOTH bool inside(int32_t width, int32_t height) const {
    return x >= 0 && x < width && y >= 0 && y < height;
  }
};
// m: the eight numbers of a Homography; the last two count only if the map `divides`.
MILLRACE_BOTH inline MappedPlace mapped_place(const double* m, bool divides, int32_t column, int32_t row) {
  const double x = column + 0.5, y = row + 0.5;
  const double at_x = m[0] * x + m[1] * y + m[2], at_y = m[3] * x + m[4] * y + m[5];
  if (!divides) return {at_x, at_y};
  const double divisor = m[6] * x + m[7] * y + 1;
  return {at_x / divisor, at_y / divisor};
}

}  // namespace millrace::transforms
