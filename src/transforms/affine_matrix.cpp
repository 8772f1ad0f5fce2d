#include "transforms/affine_matrix.h"

#include <charconv>
#include <cmath>
#include <numbers>

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

}  // namespace millrace::transforms
