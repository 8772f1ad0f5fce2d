// The resize of fused_augment() on the CPU: all inputs along one axis, then the outputs along the other.
#include <vector>

#include "device/fused_kernels.h"
#include "device/kernel_launch.h"
#include "device/reference_threads.h"

namespace millrace::device::reference {
namespace {

// One axis of a sample: the first input and the weights of each output.
struct Axis {
  const int32_t *starts, *weights;
  int32_t outputs, taps;

  // Returns output `o`; its t-th input is input(starts[o] + t).
  template <class Input>
  Rgb8 output(int32_t o, Input&& input) const {
    int32_t r = 0, g = 0, b = 0;
    for (int32_t t = 0; t < taps; ++t) {
      const int32_t weight = weights[t * outputs + o];
      const Rgb8 in = input(starts[o] + t);
      r += weight * in.r, g += weight * in.g, b += weight * in.b;
    }
    return {filtered(r), filtered(g), filtered(b)};
  }
};

struct Grid {
  int32_t width, height;
  std::vector<Rgb8> pixels;
  Grid(int32_t w, int32_t h) : width(w), height(h), pixels(static_cast<size_t>(w) * static_cast<size_t>(h)) {}
  Rgb8& at(int32_t x, int32_t y) {
    return pixels[static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)];
  }
};

// Fills `out` from a function of the input's x and y; `x` has one output for each column of `out`.
template <class Input>
void across(const Axis& x, Grid& out, Input&& input) {
  for (int32_t row = 0; row < out.height; ++row)
    for (int32_t o = 0; o < out.width; ++o)
      out.at(o, row) = x.output(o, [&](int32_t i) { return input(i, row); });
}
template <class Input>
void down(const Axis& y, Grid& out, Input&& input) {
  for (int32_t o = 0; o < out.height; ++o)
    for (int32_t column = 0; column < out.width; ++column)
      out.at(column, o) = y.output(o, [&](int32_t i) { return input(column, i); });
}

void resample_sample(const FusedKernel& kernel, int32_t i) {
  const FusedParams& p = kernel.params[i];
  const int32_t w = p.width, h = p.height;
  const int32_t *x_table = kernel.table + p.x_table, *y_table = kernel.table + p.y_table;
  const Axis x{x_table, x_table + w, w, p.x_taps}, y{y_table, y_table + h, h, p.y_taps};
  const auto picture = [&p](int32_t column, int32_t row) {
    const uint8_t* pixel = p.pixels + int64_t{row} * p.pitch + int64_t{column} * p.pixel_bytes;
    return Rgb8{pixel[0], pixel[1], pixel[2]};
  };
  Grid between(p.vertical_first ? p.in_width : w, p.vertical_first ? h : p.in_height), out(w, h);
  const auto half_done = [&between](int32_t column, int32_t row) { return between.at(column, row); };
  if (p.vertical_first) {
    down(y, between, picture);
    across(x, out, half_done);
  } else {
    across(x, between, picture);
    down(y, out, half_done);
  }
  for (int32_t row = 0; row < h; ++row)
    for (int32_t column = 0; column < w; ++column)
      kernel.grey_sums[kernel.samples.first + i] += kernel.emit(i, column, row, out.at(column, row));
}

}  // namespace

void resample(const FusedKernel& kernel) {
  for_samples(kernel.samples.count, kernel.out.groups(), [&](int32_t i) { resample_sample(kernel, i); });
}

}  // namespace millrace::device::reference
