#include "transforms/affine_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "transforms/affine_scalar.h"

namespace millrace::transforms {
namespace {

int64_t fixed_16(double v, double most) {
  return static_cast<int64_t>(std::floor(std::clamp(v, -most, most) * 65536.0 + 0.5));
}

void map_nearest(const AffineMap& map, base::ImageView window, std::span<const int32_t> columns, int32_t row,
                 uint8_t* out) {
  const auto& m = map.inverse;
  const NearestMap nearest = nearest_map({m[0], m[1], m[2], m[3], m[4], m[5]});
  for (const int32_t column : columns) {
    // The window has every pixel of the picture that the map needs, so a place outside of the window is
    // outside of the picture.
    const int64_t x = nearest.x(column, row) - map.left, y = nearest.y(column, row) - map.top;
    if (x >= 0 && x < window.width && y >= 0 && y < window.height)
      std::memcpy(out, window.row(static_cast<int32_t>(y)) + x * base::kPixelBytes, base::kPixelBytes);
    else
      std::memcpy(out, map.fill.data(), 3);
    out += base::kPixelBytes;
  }
}

void map_nearest_divided(const AffineMap& map, base::ImageView window, std::span<const int32_t> columns,
                         int32_t row, uint8_t* out) {
  for (const int32_t column : columns) {
    const MappedPlace at = mapped_place(map.inverse.data(), true, column, row);
    if (at.inside(map.picture.width, map.picture.height)) {
      const auto x = std::clamp(static_cast<int32_t>(at.x) - map.left, 0, window.width - 1),
                 y = std::clamp(static_cast<int32_t>(at.y) - map.top, 0, window.height - 1);
      std::memcpy(out, window.row(y) + int64_t{x} * base::kPixelBytes, base::kPixelBytes);
    } else {
      std::memcpy(out, map.fill.data(), 3);
    }
    out += base::kPixelBytes;
  }
}

template <class Filter>
void map_by(const AffineMap& map, base::ImageView window, std::span<const int32_t> columns, int32_t row,
            uint8_t* out) {
  const auto at = [&](int32_t x, int32_t y) {
    const uint8_t* pixel = window.row(std::clamp(y - map.top, 0, window.height - 1)) +
                           std::clamp(x - map.left, 0, window.width - 1) * base::kPixelBytes;
    return Rgb8{pixel[0], pixel[1], pixel[2]};
  };
  for (const int32_t column : columns) {
    Rgb8 p{map.fill[0], map.fill[1], map.fill[2]};
    const MappedPlace place = mapped_place(map.inverse.data(), map.divides, column, row);
    if (place.inside(map.picture.width, map.picture.height)) smooth_pixel_at<Filter>(place.x, place.y, at, p);
    out[0] = static_cast<uint8_t>(p.r), out[1] = static_cast<uint8_t>(p.g),
    out[2] = static_cast<uint8_t>(p.b);
    out += base::kPixelBytes;
  }
}

}  // namespace

NearestMap nearest_map(const InverseAffine& m) {
  // Larger steps leave the picture at once; with these, steps times positions fit 64 bits.
  const auto step = [](double v) { return fixed_16(v, 1e5); };
  const auto place = [](double v) { return fixed_16(v, 1e12); };
  return {place(m[2] + m[0] * 0.5 + m[1] * 0.5),
          place(m[5] + m[3] * 0.5 + m[4] * 0.5),
          step(m[0]),
          step(m[3]),
          step(m[1]),
          step(m[4])};
}

namespace scalar {
void map_smooth(const AffineMap& map, base::ImageView window, std::span<const int32_t> columns, int32_t row,
                uint8_t* out) {
  if (map.interpolation == Interpolation::bilinear)
    map_by<LinearFilter>(map, window, columns, row, out);
  else
    map_by<CubicFilter>(map, window, columns, row, out);
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
