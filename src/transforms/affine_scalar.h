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

// The pixel of a position inside of the picture. `at(x, y)`: the input's pixel, or its border's where that
// lies outside.
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

// `inverse`: six numbers. The result is false where the pixel shows nothing of the picture of width x height.
template <class Filter, class At>
MILLRACE_BOTH inline bool smooth_pixel(const double* inverse, int32_t width, int32_t height, int32_t column,
                                       int32_t row, At&& at, Rgb8& out) {
  const double center = column + 0.5, row_center = row + 0.5;
  const double x = inverse[0] * center + inverse[1] * row_center + inverse[2],
               y = inverse[3] * center + inverse[4] * row_center + inverse[5];
  if (x < 0 || x >= width || y < 0 || y >= height) return false;
  smooth_pixel_at<Filter>(x, y, at, out);
  return true;
}

}  // namespace millrace::transforms
