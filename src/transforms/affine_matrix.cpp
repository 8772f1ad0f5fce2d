#include "transforms/affine_matrix.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>

#include "millrace/error.h"

namespace millrace::transforms {
namespace {

double radians(double degrees) { return degrees * (std::numbers::pi / 180); }

std::array<double, 2> center_of(const Center& center, PictureSize size) {
  return center.value_or(std::array<double, 2>{size.width * 0.5, size.height * 0.5});
}

// Python's round(x, 15), which rounds the decimal number that x is.
double round_15(double x) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), x, std::chars_format::fixed, 15).ptr;
  std::from_chars(digits, end, x);
  return x;
}

// a * b - c * d, right to the last bit or two however much cancels (Kahan).
double difference(double a, double b, double c, double d) {
  const double second = c * d, error = std::fma(-c, d, second);
  return std::fma(a, b, -second) + error;
}

[[noreturn]] void no_perspective(PictureSize size) {
  throw Error(
      ErrorKind::invalid_argument,
      "RandomPerspective: The least squares solution could not be computed because the input matrix "
      "does not have full rank: the corners that were drawn belong to no perspective, in a picture of "
      "size " +
          text(size) + " (height, width); resize before it, or use a smaller distortion_scale");
}

}  // namespace

InverseAffine rotation_inverse(double angle, const Center& center, PictureSize size) {
  angle = std::fmod(angle, 360);
  if (angle < 0) angle += 360;  // Python's %
  const double turn = -radians(angle), c = round_15(std::cos(turn)), s = round_15(std::sin(turn));
  const double minus_s = round_15(-std::sin(turn));
  const auto [x, y] = center_of(center, size);
  return {c, s, c * -x + s * -y + 0.0 + x, minus_s, c, minus_s * -x + c * -y + 0.0 + y};
}

InverseAffine affine_inverse(const AffineParams& affine, const Center& center, PictureSize size) {
  const double turn = radians(affine.angle), shear_x = radians(affine.shear_x),
               shear_y = radians(affine.shear_y);
  const double a = std::cos(turn - shear_y) / std::cos(shear_y),
               c = std::sin(turn - shear_y) / std::cos(shear_y);
  const double b = -(a * std::tan(shear_x) + std::sin(turn)), d = std::cos(turn) - c * std::tan(shear_x);
  const auto [x, y] = center_of(center, size);
  const double moved_x = x + affine.translate_x, moved_y = y + affine.translate_y;
  InverseAffine m{d / affine.scale, -b / affine.scale, 0, -c / affine.scale, a / affine.scale, 0};
  m[2] += x - m[0] * moved_x - m[1] * moved_y;
  m[5] += y - m[3] * moved_x - m[4] * moved_y;
  return m;
}

// From the unit square to the corners (Heckbert, "Fundamentals of texture mapping and image warping", 1989),
// times a number that makes all entries whole; then the adjugate of that matrix.
Homography perspective_inverse(const std::array<std::array<int32_t, 2>, 4>& corners, PictureSize size) {
  const auto& [p0, p1, p2, p3] = corners;
  const auto side = [](int32_t a, int32_t b) { return static_cast<double>(a - b); };
  const double right_x = side(p1[0], p2[0]), right_y = side(p1[1], p2[1]);
  const double lower_x = side(p3[0], p2[0]), lower_y = side(p3[1], p2[1]);
  const double sum_x = side(p0[0], p1[0]) + side(p2[0], p3[0]),
               sum_y = side(p0[1], p1[1]) + side(p2[1], p3[1]);
  const double i = difference(right_x, lower_y, lower_x, right_y);
  const double g = difference(sum_x, lower_y, lower_x, sum_y);
  const double h = difference(right_x, sum_y, sum_x, right_y);
  const double a = side(p1[0], p0[0]) * i + g * p1[0], b = side(p3[0], p0[0]) * i + h * p3[0], c = p0[0] * i;
  const double d = side(p1[1], p0[1]) * i + g * p1[1], e = side(p3[1], p0[1]) * i + h * p3[1], f = p0[1] * i;
  const double unit = difference(a, e, b, d);
  if (unit == 0) no_perspective(size);
  const double x = (size.width - 1) / unit, y = (size.height - 1) / unit;
  Homography m{difference(e, i, f, h) * x,    difference(c, h, b, i) * x,   difference(b, f, c, e) * x,
               difference(f, g, d, i) * y,    difference(a, i, c, g) * y,   difference(c, d, a, f) * y,
               difference(d, h, e, g) / unit, difference(b, g, a, h) / unit};
  for (double& v : m) v = static_cast<float>(v);
  return m;
}

MapWindow mapped_window(const Homography& m, Window out_x, Window out_y, PictureSize in) {
  // A map takes a rectangle to a polygon of the corners' places, unless its divisor changes sign on the way.
  constexpr double most = std::numeric_limits<double>::max();
  double left = most, right = -most, top = most, bottom = -most, least = most, greatest = -most;
  for (const double x : {out_x.begin + 0.5, out_x.begin + out_x.size - 0.5})
    for (const double y : {out_y.begin + 0.5, out_y.begin + out_y.size - 0.5}) {
      const double divisor = m[6] * x + m[7] * y + 1;
      const double at_x = (m[0] * x + m[1] * y + m[2]) / divisor,
                   at_y = (m[3] * x + m[4] * y + m[5]) / divisor;
      left = std::min(left, at_x), right = std::max(right, at_x);
      top = std::min(top, at_y), bottom = std::max(bottom, at_y);
      least = std::min(least, divisor), greatest = std::max(greatest, divisor);
    }
  if (!(least > 1e-9 || greatest < -1e-9)) return {{0, in.width}, {0, in.height}};
  const double margin = 3 + (out_x.begin + out_x.size + out_y.begin + out_y.size) * 0x1p-17;
  const auto along = [margin](double low, double high, int32_t size) {
    const auto begin = static_cast<int32_t>(std::clamp(std::floor(low - margin), 0.0, double(size)));
    const auto end = static_cast<int32_t>(std::clamp(std::floor(high + margin) + 1, 0.0, double(size)));
    return begin < end ? Window{begin, end - begin} : Window{0, 1};
  };
  return {along(left, right, in.width), along(top, bottom, in.height)};
}

}  // namespace millrace::transforms
