#include "transforms/affine_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace millrace::transforms {
namespace {

int64_t fixed_16(double v, double most) {
  return static_cast<int64_t>(std::floor(std::clamp(v, -most, most) * 65536.0 + 0.5));
}

void map_nearest(const AffineMap& map, base::ImageView window, std::span<const int32_t> columns, int32_t row,
                 uint8_t* out) {
  const Homography& m = map.inverse;
  // Larger steps leave the picture at once; with these, steps times positions fit 64 bits.
  const auto step = [](double v) { return fixed_16(v, 1e5); };
  const auto place = [](double v) { return fixed_16(v, 1e12); };
  const int64_t step_x = step(m[0]), step_y = step(m[3]);
  const int64_t first_x = place(m[2] + m[0] * 0.5 + m[1] * 0.5) + step(m[1]) * row;
  const int64_t first_y = place(m[5] + m[3] * 0.5 + m[4] * 0.5) + step(m[4]) * row;
  for (const int32_t column : columns) {
    // The window has every pixel of the picture that is asked for, so what lies outside of it lies outside of
    // the picture.
    const int64_t x = ((first_x + step_x * column) >> 16) - map.left,
                  y = ((first_y + step_y * column) >> 16) - map.top;
    if (x >= 0 && x < window.width && y >= 0 && y < window.height)
      std::memcpy(out, window.row(static_cast<int32_t>(y)) + x * base::kPixelBytes, base::kPixelBytes);
    else
      std::memcpy(out, map.fill.data(), 3);
    out += base::kPixelBytes;
  }
}

// Positions in the input, as Pillow computes them for each kind of map.
struct Place {
  double x, y;
};
Place place_of(const AffineMap& map, double x, double y) {
  const Homography& m = map.inverse;
  const double at_x = m[0] * x + m[1] * y + m[2], at_y = m[3] * x + m[4] * y + m[5];
  if (!map.divides) return {at_x, at_y};
  const double divisor = m[6] * x + m[7] * y + 1;
  return {at_x / divisor, at_y / divisor};
}

// Not for a number that a division by 0 gave.
bool inside(const Place& at, PictureSize picture) {
  return at.x >= 0 && at.x < picture.width && at.y >= 0 && at.y < picture.height;
}

void map_nearest_divided(const AffineMap& map, base::ImageView window, std::span<const int32_t> columns,
                         int32_t row, uint8_t* out) {
  for (const int32_t column : columns) {
    const Place at = place_of(map, column + 0.5, row + 0.5);
    if (inside(at, map.picture)) {
      const auto x = std::clamp(static_cast<int32_t>(at.x) - map.left, 0, window.width - 1),
                 y = std::clamp(static_cast<int32_t>(at.y) - map.top, 0, window.height - 1);
      std::memcpy(out, window.row(y) + int64_t{x} * base::kPixelBytes, base::kPixelBytes);
    } else {
      std::memcpy(out, map.fill.data(), 3);
    }
    out += base::kPixelBytes;
  }
}

// kTaps pixels each way, weighed by polynomials of the distance to the first of the middle two.
struct Linear {
  static constexpr int kTaps = 2;
  static double between(const double* v, double d) { return v[0] + (v[1] - v[0]) * d; }
};
struct Cubic {
  static constexpr int kTaps = 4;
  static double between(const double* v, double d) {
    const double p2 = -v[0] + v[2], p3 = 2 * (v[0] - v[1]) + v[2] - v[3], p4 = -v[0] + v[1] - v[2] + v[3];
    return v[1] + d * (p2 + d * (p3 + d * p4));
  }
};

template <class Filter>
void map_by(const AffineMap& map, base::ImageView window, std::span<const int32_t> columns, int32_t row,
            uint8_t* out) {
  constexpr int kTaps = Filter::kTaps;
  for (const int32_t column : columns) {
    const Place at = place_of(map, column + 0.5, row + 0.5);
    const auto [x, y] = at;
    if (!inside(at, map.picture)) {
      std::memcpy(out, map.fill.data(), 3);
      out += base::kPixelBytes;
      continue;
    }
    const double left = std::floor(x - 0.5), top = std::floor(y - 0.5);
    const auto first_x = static_cast<int32_t>(left) - map.left - (kTaps / 2 - 1);
    const auto first_y = static_cast<int32_t>(top) - map.top - (kTaps / 2 - 1);
    int32_t offsets[kTaps];
    const uint8_t* rows[kTaps];
    for (int i = 0; i < kTaps; ++i) {
      offsets[i] = std::clamp(first_x + i, 0, window.width - 1) * base::kPixelBytes;
      rows[i] = window.row(std::clamp(first_y + i, 0, window.height - 1));
    }
    for (int c = 0; c < 3; ++c) {
      double across[kTaps], down[kTaps];
      for (int j = 0; j < kTaps; ++j) {
        for (int i = 0; i < kTaps; ++i) across[i] = rows[j][offsets[i] + c];
        down[j] = Filter::between(across, x - 0.5 - left);
      }
      out[c] = static_cast<uint8_t>(std::clamp(Filter::between(down, y - 0.5 - top), 0.0, 255.0));
    }
    out += base::kPixelBytes;
  }
}

}  // namespace

namespace scalar {
void map_smooth(const AffineMap& map, base::ImageView window, std::span<const int32_t> columns, int32_t row,
                uint8_t* out) {
  if (map.interpolation == Interpolation::bilinear)
    map_by<Linear>(map, window, columns, row, out);
  else
    map_by<Cubic>(map, window, columns, row, out);
}
}  // namespace scalar

void map_row(const AffineMap& map, base::ImageView window, std::span<const int32_t> columns, int32_t row,
             uint8_t* out) {
  if (map.interpolation == Interpolation::nearest && map.divides)
    map_nearest_divided(map, window, columns, row, out);
  else if (map.interpolation == Interpolation::nearest)
    map_nearest(map, window, columns, row, out);
  else
    map_smooth(map, window, columns, row, out);
}

}  // namespace millrace::transforms
