#include "transforms/picture_size.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "millrace/error.h"

namespace millrace::transforms {
namespace {
constexpr int32_t kMostSide = std::numeric_limits<int32_t>::max() / 4;
}

std::string text(PictureSize s) {
  return "(" + std::to_string(s.height) + ", " + std::to_string(s.width) + ")";
}

int32_t round_half_even(double x) { return static_cast<int32_t>(std::nearbyint(x)); }

int32_t checked_side(int64_t side, PictureSize in) {
  if (side < 1 || side > kMostSide)
    throw Error(ErrorKind::invalid_argument, "Resize: a picture of size " + text(in) +
                                                 " (height, width) would get a side of " +
                                                 std::to_string(side) +
                                                 " pixels; height and width must be > 0 and fit in memory; "
                                                 "leave such pictures out or give both sizes");
  return static_cast<int32_t>(side);
}

PictureSize padded(PictureSize in, const Padding& p) {
  const int64_t width = int64_t{in.width} + p.left + p.right, height = int64_t{in.height} + p.top + p.bottom;
  if (std::max(width, height) > kMostSide)
    throw Error(ErrorKind::invalid_argument, "padding makes a picture of " + std::to_string(height) + " x " +
                                                 std::to_string(width) +
                                                 " pixels, more than memory can hold; use a smaller padding");
  return {static_cast<int32_t>(width), static_cast<int32_t>(height)};
}

}  // namespace millrace::transforms
