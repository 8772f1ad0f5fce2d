// Pillow's resampling filters, with every operation in Pillow's order: for the CPU's plain version and for
// the GPU. The GPU's sines (lanczos, hamming) may differ in the last bit. Pure, any thread.
#pragma once

#include <cmath>

#include "base/host_device.h"
#include "millrace/interpolation.h"

namespace millrace::transforms {

// How far a filter reaches both ways, in inputs of a resize that does not shrink.
MILLRACE_BOTH inline double filter_radius(Interpolation filter) {
  switch (filter) {
    case Interpolation::box: return 0.5;
    case Interpolation::bicubic: return 2;
    case Interpolation::lanczos: return 3;
    default: return 1;
  }
}

// sin(pi x) / (pi x)
MILLRACE_BOTH inline double sinc(double x) {
  constexpr double pi = 3.14159265358979323846;
  return x == 0 ? 1 : sin(x * pi) / (x * pi);
}

// `x`: signed, as the box filter has only one of its two ends.
MILLRACE_BOTH inline double filter_weight(Interpolation filter, double x) {
  const double distance = fabs(x);
  switch (filter) {
    case Interpolation::bicubic: {  // Keys' cubic convolution
      constexpr double a = -0.5;
      if (distance < 1) return ((a + 2) * distance - (a + 3)) * distance * distance + 1;
      return distance < 2 ? (((distance - 5) * distance + 8) * distance - 4) * a : 0;
    }
    case Interpolation::lanczos: return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
    case Interpolation::box: return x > -0.5 && x <= 0.5 ? 1 : 0;
    case Interpolation::hamming: {
      if (distance == 0) return 1;
      if (distance >= 1) return 0;
      const double angle = distance * 3.14159265358979323846;
      return sin(angle) / angle * (0.54f + 0.46f * cos(angle));  // floats in Pillow, too
    }
    default: return distance < 1 ? 1 - distance : 0;  // bilinear
  }
}

}  // namespace millrace::transforms
