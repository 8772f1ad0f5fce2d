// The resize of fused_augment() on the GPU: a block makes 32 x 32 outputs of one sample, so that no
// intermediate leaves the chip.
//
// The inputs under the tile come into shared memory in pieces, 16 bytes per access. The first pass makes
// 8-bit pixels of a band (32 rows, or 32 columns if the vertical pass is the first), the second adds the band
// to four outputs of each thread, which stay in registers. So any factor of shrinking takes the same memory,
// and inputs are resized twice only where tiles meet.
//
// Included by fused_resample.cu, and by a test that runs a block's threads on the CPU (tests/cpp/cuda).
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/fused_kernels.h"

namespace millrace::cuda {
namespace {

constexpr int kWarps = 8, kThreads = 32 * kWarps,
              kRows = device::kTile / kWarps;  // rows per warp, of a band and of the outputs alike
static_assert(device::kTile == 32, "a lane per column");

struct Sums {
  int32_t r = 1 << (device::kFilterBits - 1), g = r, b = r;
  __device__ void add(int32_t weight, uint32_t rgb) {
    r += weight * static_cast<int32_t>(rgb & 0xFF);
    g += weight * static_cast<int32_t>(rgb >> 8 & 0xFF);
    b += weight * static_cast<int32_t>(rgb >> 16 & 0xFF);
  }
  __device__ device::Rgb8 rounded() const {
    return {device::clamped8(r >> device::kFilterBits), device::clamped8(g >> device::kFilterBits),
            device::clamped8(b >> device::kFilterBits)};
  }
  __device__ uint32_t packed() const {
    const device::Rgb8 p = rounded();
    return static_cast<uint32_t>(p.r | p.g << 8 | p.b << 16);
  }
};

// One axis of the sample, and the inputs that the tile's outputs see.
struct Axis {
  const int32_t *starts, *weights;
  int32_t outputs, taps, begin, end;
  __device__ Axis(const int32_t* table, int32_t count, int32_t taps_each, int32_t tile_begin)
      : starts(table), weights(table + count), outputs(count), taps(taps_each) {
    const int32_t a = starts[tile_begin],
                  b = starts[min(tile_begin + device::kTile, count) - 1];  // starts rise, or fall if flipped
    begin = min(a, b);
    end = max(a, b) + taps;
  }
  __device__ int32_t weight(int32_t tap, int32_t output) const { return weights[tap * outputs + output]; }
};

// A rectangle of inputs in shared memory. Rows keep the alignment that they have in the source, so that
// copies are whole blocks of 16.
class Stage {
 public:
  __device__ Stage(const device::FusedParams& p, uint8_t* shared, int32_t shared_bytes, int32_t most_columns)
      : p_(p), bytes_(shared), row_bytes_(device::staged_row_bytes(most_columns, p.pixel_bytes)),
        most_rows_(shared_bytes / row_bytes_) {}

  __device__ int32_t most_rows() const { return most_rows_; }

  // By all threads, with barriers before and after.
  __device__ void load(int32_t left, int32_t right, int32_t top, int32_t bottom) {
    corner_ = p_.pixels + int64_t{top} * p_.pitch + int64_t{left} * p_.pixel_bytes;
    const int32_t used = (right - left) * p_.pixel_bytes,
                  blocks = device::staged_row_bytes(right - left, p_.pixel_bytes) / 16;
    for (int32_t at = static_cast<int32_t>(threadIdx.x); at < (bottom - top) * blocks; at += kThreads) {
      const int32_t row = at / blocks, block = at - row * blocks;
      const uint8_t* const from = corner_ + int64_t{row} * p_.pitch;
      const uint8_t* const source = from - misses(from) + 16 * block;
      uint8_t* const to = bytes_ + row * row_bytes_ + 16 * block;
      if (source >= from && source + 16 <= from + used) {
        *reinterpret_cast<uint4*>(to) = __ldg(reinterpret_cast<const uint4*>(source));
      } else {  // over an end, where other memory may begin
        for (int i = 0; i < 16; ++i)
          if (source + i >= from && source + i < from + used) to[i] = source[i];
      }
    }
  }

  // Where the row's first pixel lies; pixel() takes places in bytes.
  __device__ int32_t row_place(int32_t row) const {
    return row * row_bytes_ + misses(corner_ + int64_t{row} * p_.pitch);
  }
  __device__ uint32_t pixel(int32_t place) const {  // RGB, the fourth byte without meaning
    const uint32_t* const words = reinterpret_cast<const uint32_t*>(bytes_) + (place >> 2);
    return __funnelshift_r(words[0], words[1], (place & 3) * 8);
  }

 private:
  __device__ static int32_t misses(const uint8_t* p) {
    return static_cast<int32_t>(reinterpret_cast<uintptr_t>(p) & 15);
  }

  const device::FusedParams& p_;
  uint8_t* const bytes_;
  const int32_t row_bytes_, most_rows_;
  const uint8_t* corner_ = nullptr;
};

// A thread's part of the tile: a column and four rows. Past the edge of the result, the last ones repeat.
struct Mine {
  int32_t lane, warp, x, y[kRows];
  __device__ int32_t row(int k) const { return warp + kWarps * k; }  // of the tile, or of a band
};

__device__ void across_then_down(const device::FusedParams& p, const Axis& columns, const Axis& rows,
                                 const Mine& mine, uint32_t* band, uint8_t* shared, int32_t shared_bytes,
                                 Sums* outputs) {
  Stage stage(p, shared, shared_bytes, columns.end - columns.begin);
  const int32_t band_rows = min(device::kTile, stage.most_rows()),
                first_byte = (columns.starts[mine.x] - columns.begin) * p.pixel_bytes;
  for (int32_t top = rows.begin; top < rows.end; top += band_rows) {
    const int32_t count = min(band_rows, rows.end - top);
    stage.load(columns.begin, columns.end, top, top + count);
    __syncthreads();
    int32_t place[kRows];
    MILLRACE_UNROLL
    for (int k = 0; k < kRows; ++k) place[k] = stage.row_place(min(mine.row(k), count - 1)) + first_byte;
    Sums across[kRows];
    for (int32_t t = 0; t < columns.taps; ++t) {
      const int32_t weight = columns.weight(t, mine.x);
      MILLRACE_UNROLL
      for (int k = 0; k < kRows; ++k) across[k].add(weight, stage.pixel(place[k] + t * p.pixel_bytes));
    }
    MILLRACE_UNROLL
    for (int k = 0; k < kRows; ++k) band[mine.row(k) * device::kTile + mine.lane] = across[k].packed();
    __syncthreads();
    MILLRACE_UNROLL
    for (int k = 0; k < kRows; ++k) {
      const int32_t before = top - rows.starts[mine.y[k]],
                    last = min(rows.taps, before + count);  // taps of earlier bands
      for (int32_t t = max(before, 0); t < last; ++t)
        outputs[k].add(rows.weight(t, mine.y[k]), band[(t - before) * device::kTile + mine.lane]);
    }
  }  // the band is not written again before the next barrier
}

__device__ void down_then_across(const device::FusedParams& p, const Axis& columns, const Axis& rows,
                                 const Mine& mine, uint32_t* band, uint8_t* shared, int32_t shared_bytes,
                                 Sums* outputs) {
  Stage stage(p, shared, shared_bytes, device::kTile);
  for (int32_t left = columns.begin; left < columns.end; left += device::kTile) {
    const int32_t count = min(device::kTile, columns.end - left),
                  column = min(mine.lane, count - 1) * p.pixel_bytes;
    Sums down[kRows];
    for (int32_t top = rows.begin; top < rows.end; top += stage.most_rows()) {
      const int32_t bottom = min(top + stage.most_rows(), rows.end);
      stage.load(left, left + count, top, bottom);
      __syncthreads();
      MILLRACE_UNROLL
      for (int k = 0; k < kRows; ++k) {
        const int32_t start = rows.starts[mine.y[k]], last = min(rows.taps, bottom - start);
        for (int32_t t = max(top - start, 0); t < last; ++t)
          down[k].add(rows.weight(t, mine.y[k]), stage.pixel(stage.row_place(start + t - top) + column));
      }
      __syncthreads();
    }
    MILLRACE_UNROLL
    for (int k = 0; k < kRows; ++k) band[mine.row(k) * device::kTile + mine.lane] = down[k].packed();
    __syncthreads();
    const int32_t before = left - columns.starts[mine.x],
                  last = min(columns.taps, before + count);  // taps of earlier bands
    for (int32_t t = max(before, 0); t < last; ++t) {
      const int32_t weight = columns.weight(t, mine.x);
      MILLRACE_UNROLL
      for (int k = 0; k < kRows; ++k) outputs[k].add(weight, band[mine.row(k) * device::kTile + t - before]);
    }
  }  // the band is not written again before the next barrier
}

__global__ void __launch_bounds__(kThreads)
    resample_tile(const __grid_constant__ device::FusedKernel kernel, int32_t stage_bytes) {
  extern __shared__ __align__(16) uint8_t block_memory[];
  uint32_t* const band = reinterpret_cast<uint32_t*>(block_memory);  // kTile rows of kTile pixels, RGBX
  uint8_t* const stage = block_memory + device::kTile * device::kTile * sizeof(uint32_t);
  const auto i = static_cast<int32_t>(blockIdx.z);
  const int32_t left = static_cast<int32_t>(blockIdx.x) * device::kTile,
                top = static_cast<int32_t>(blockIdx.y) * device::kTile;
  const device::FusedParams& p = kernel.params[i];
  const int32_t width = p.width, height = p.height;
  if (left >= width || top >= height) return;  // another sample's result is larger
  const Axis columns(kernel.table + p.x_table, width, p.x_taps, left),
      rows(kernel.table + p.y_table, height, p.y_taps, top);
  Mine mine{static_cast<int32_t>(threadIdx.x % 32), static_cast<int32_t>(threadIdx.x / 32), 0, {}};
  mine.x = min(left + mine.lane, width - 1);
  MILLRACE_UNROLL
  for (int k = 0; k < kRows; ++k) mine.y[k] = min(top + mine.row(k), height - 1);

  Sums outputs[kRows];
  if (p.vertical_first)
    down_then_across(p, columns, rows, mine, band, stage, stage_bytes, outputs);
  else
    across_then_down(p, columns, rows, mine, band, stage, stage_bytes, outputs);

  long long grey = 0;
  MILLRACE_UNROLL
  for (int k = 0; k < kRows; ++k)
    if (left + mine.lane < width && top + mine.row(k) < height)
      grey += kernel.emit(i, mine.x, mine.y[k], outputs[k].rounded());
  if (!p.waits_for_mean()) return;
  for (int offset = 16; offset > 0; offset /= 2) grey += __shfl_down_sync(0xFFFFFFFFu, grey, offset);
  if (mine.lane == 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(kernel.grey_sums + kernel.samples.first + i),
              static_cast<unsigned long long>(grey));
}

// The memory for the widest tile of any sample; for whole bands, if that is not too much.
inline int32_t stage_bytes_of(const device::FusedKernel& kernel) {
  int64_t most = 0;
  for (int32_t i = 0; i < kernel.samples.count; ++i) {
    const device::FusedParams& p = kernel.params[i];
    const int64_t columns =
        std::min<int64_t>(p.in_width, int64_t{device::kTile} * p.in_width / p.resized_width + 2 * p.x_taps);
    const int64_t rows = std::min<int64_t>(
        p.in_height, int64_t{device::kTile} * p.in_height / p.resized_height + 2 * p.y_taps);
    most = std::max<int64_t>(
        most, p.vertical_first ? rows * device::staged_row_bytes(device::kTile, p.pixel_bytes)
                               : int64_t{device::kTile} *
                                     device::staged_row_bytes(static_cast<int32_t>(columns), p.pixel_bytes));
  }
  return static_cast<int32_t>(std::min<int64_t>(most, device::kMostStageBytes));
}

constexpr int32_t kOverread = 16;  // of the last pixel's second word
inline int32_t shared_bytes_of(int32_t stage_bytes) {
  return device::kTile * device::kTile * static_cast<int32_t>(sizeof(uint32_t)) + stage_bytes + kOverread;
}

}  // namespace
}  // namespace millrace::cuda
