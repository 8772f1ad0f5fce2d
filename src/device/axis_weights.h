// The weights of one output of a resize along one axis, in fixed point, for fused and other resizes of a
// device. The filters are those of transforms/filter_weights.h. The rounding is Pillow's, to 22 fractional
// bits, or that of torch's resize of tensors, to fewer (transforms/resample_taps.h). For the CPU and the GPU.
// Pure.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "transforms/byte_pixels.h"
#include "transforms/filter_weights.h"

namespace millrace::device {

inline constexpr int32_t kFilterBits = 22;

// Returns how many inputs one output of a resize may see.
MILLRACE_BOTH inline int32_t taps_of(int32_t in_size, int32_t out_size, Interpolation filter) {
  const double scale = static_cast<double>(in_size) / out_size, stretch = scale > 1 ? scale : 1;
  const double most = 2 * stretch * transforms::filter_radius(filter) + 1;
  return most < in_size ? static_cast<int32_t>(most) : in_size;
}

MILLRACE_BOTH inline int32_t filtered(int32_t sum) {
  return transforms::clamped8((sum + (1 << (kFilterBits - 1))) >> kFilterBits);
}

// A resize along one axis from `in_size` to `size`. Only `outputs` of its outputs are wanted, from `begin`
// on, mirrored or not. Outputs outside of the resize have no weight. `input_flip`: the input is mirrored
// first. Mirroring the result instead is not the same: weights are rounded, and the box filter includes only
// one of its ends.
struct AxisResize {
  int32_t outputs, begin, in_size, size, taps;
  Interpolation filter;
  bool flip, input_flip;
  int32_t shift;  // how many of the fractional bits are rounded off
};

// An axis' entries: the first input of each output, then the outputs' first weights, their second, ...
MILLRACE_BOTH inline int64_t axis_entries(const AxisResize& r) {
  return int64_t{r.outputs} * (1 + int64_t{r.taps});
}
MILLRACE_BOTH inline void weigh_output(const AxisResize& r, int32_t o, int32_t* axis) {
  const int32_t place = r.begin + (r.flip ? r.outputs - 1 - o : o),
                wanted = r.input_flip ? r.size - 1 - place : place,
                index = wanted < 0        ? 0
                        : wanted < r.size ? wanted
                                          : r.size - 1;
  const double scale = static_cast<double>(r.in_size) / r.size, stretch = scale > 1 ? scale : 1,
               per_input = 1.0 / stretch;
  const double center = (index + 0.5) * scale, support = stretch * transforms::filter_radius(r.filter);
  const int32_t low = static_cast<int32_t>(center - support + 0.5),
                high = static_cast<int32_t>(center + support + 0.5);
  const int32_t first = low > 0 ? low : 0, last = high < r.in_size ? high : r.in_size;
  const int32_t start = first < r.in_size - r.taps ? first : r.in_size - r.taps;  // surplus taps lie inside
  double sum = 0;
  for (int32_t x = first; x < last; ++x)
    sum += transforms::filter_weight(r.filter, (x - center + 0.5) * per_input);
  axis[o] = r.input_flip ? r.in_size - (start + r.taps) : start;
  for (int32_t t = 0; t < r.taps; ++t) {
    const int32_t x = r.input_flip ? start + r.taps - 1 - t : start + t;
    double weight = 0;
    if (x >= first && x < last && wanted == index)
      weight = transforms::filter_weight(r.filter, (x - center + 0.5) * per_input);
    if (sum != 0) weight /= sum;
    const auto rounded =
        static_cast<int32_t>(weight * (1 << (kFilterBits - r.shift)) + copysign(0.5, weight));
    axis[int64_t{r.outputs} * (1 + t) + o] = rounded * (1 << r.shift);
  }
}

}  // namespace millrace::device
