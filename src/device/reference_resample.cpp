// The resize of fused_augment() on the CPU: all rows horizontally, then the outputs vertically.
#include <vector>

#include "device/fused_kernels.h"
#include "device/reference_threads.h"

namespace millrace::reference {
namespace {

Rgb8 finished(const int32_t* sums) { return {filtered(sums[0]), filtered(sums[1]), filtered(sums[2])}; }

// Row `y` of the inputs, resized to the outputs' columns.
void resample_row(const FusedKernel& kernel, const FusedParams& p, int32_t y, Rgb8* out) {
  const uint8_t* row = p.pixels + int64_t{y} * p.pitch;
  const int32_t *starts = kernel.table + p.x_table, *weights = starts + kernel.out.w;
  for (int32_t x = 0; x < kernel.out.w; ++x) {
    int32_t sums[3] = {};
    for (int32_t t = 0; t < p.x_taps; ++t)
      for (int c = 0; c < 3; ++c) sums[c] += weights[t * kernel.out.w + x] * row[int64_t{starts[x] + t} * p.pixel_bytes + c];
    out[x] = finished(sums);
  }
}

void resample_sample(const FusedKernel& kernel, int32_t i) {
  const FusedParams& p = kernel.params[i];
  const int32_t width = kernel.out.w;
  std::vector<Rgb8> rows(static_cast<size_t>(p.in_height) * static_cast<size_t>(width));
  for (int32_t y = 0; y < p.in_height; ++y) resample_row(kernel, p, y, rows.data() + int64_t{y} * width);
  const int32_t *starts = kernel.table + p.y_table, *weights = starts + kernel.out.h;
  for (int32_t y = 0; y < kernel.out.h; ++y)
    for (int32_t x = 0; x < width; ++x) {
      int32_t sums[3] = {};
      for (int32_t t = 0; t < p.y_taps; ++t) {
        const Rgb8& in = rows[static_cast<size_t>(int64_t{starts[y] + t} * width + x)];
        const int32_t weight = weights[t * kernel.out.h + y];
        sums[0] += weight * in.r, sums[1] += weight * in.g, sums[2] += weight * in.b;
      }
      kernel.grey_sums[kernel.samples.first + i] += kernel.emit(i, int64_t{y} * width + x, finished(sums));
    }
}

}  // namespace

void resample(const FusedKernel& kernel) {
  for_samples(kernel.samples.count, kernel.out.groups(), [&](int32_t i) { resample_sample(kernel, i); });
}

}  // namespace millrace::reference
