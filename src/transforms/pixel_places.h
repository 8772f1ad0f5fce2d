// Where a pixel comes from, along one axis: paddings by their modes, and Pillow's steps through a picture.
// For the CPU and the GPU. Pure, any thread.
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "millrace/transform_spec.h"

namespace millrace::transforms {

// numpy.pad's rules, which torchvision uses on pictures: reflections go on for ever, and a single pixel
// repeats.
MILLRACE_BOTH inline int32_t reflected_place(int32_t i, int32_t size, bool edge_twice) {
  const int32_t around = 2 * size - 2, period = edge_twice ? 2 * size : around > 1 ? around : 1;
  i %= period;
  if (i < 0) i += period;
  return i < size ? i : (edge_twice ? period - 1 - i : period - i);
}

// Returns the place in [0, size) that position `i` of a padded picture shows, or `fill` in constant padding.
MILLRACE_BOTH inline int32_t padded_place(int32_t i, int32_t size, PaddingMode mode, int32_t fill) {
  if (i >= 0 && i < size) return i;
  switch (mode) {
    case PaddingMode::edge: return i < 0 ? 0 : size - 1;
    case PaddingMode::reflect: return reflected_place(i, size, false);
    case PaddingMode::symmetric: return reflected_place(i, size, true);
    default: return fill;
  }
}

// The pixel at a position that Pillow's nearest-neighbour lookup has reached, or `fill` outside.
MILLRACE_BOTH inline int32_t place_at(double position, int32_t size, int32_t fill) {
  return position >= 0 && position < size ? static_cast<int32_t>(position) : fill;
}

}  // namespace millrace::transforms
