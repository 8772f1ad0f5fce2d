// The resize of fused_augment() on the GPU: a block makes 32 x 32 outputs of one sample, so that no intermediate leaves the chip.
//
// The inputs under the tile come in bands of up to 32 rows, 16 bytes per access, into shared memory. Each warp takes rows of the band
// and resizes them horizontally, a column per lane, four rows at a time for one load of each weight; the 8-bit results make up a second
// band in shared memory. From there each thread adds to its four outputs of one column, in registers. So any factor of shrinking takes
// the same memory, and rows are resized twice only where tiles meet.
#include <cuda_runtime.h>

#include <algorithm>

#include "cuda/cuda_error.h"
#include "device/fused_kernels.h"
#include "device/kernel_launch.h"

namespace millrace::cuda {
namespace {

constexpr int kWarps = 8, kThreads = 32 * kWarps, kRows = kTile / kWarps;  // rows per warp, of a band and of the outputs alike
static_assert(kTile == 32, "a lane per column");

struct Sums {
  int32_t r = 1 << (kFilterBits - 1), g = r, b = r;
  __device__ void add(int32_t weight, uint32_t rgb) {
    r += weight * static_cast<int32_t>(rgb & 0xFF);
    g += weight * static_cast<int32_t>(rgb >> 8 & 0xFF);
    b += weight * static_cast<int32_t>(rgb >> 16 & 0xFF);
  }
  __device__ Rgb8 rounded() const { return {clamped8(r >> kFilterBits), clamped8(g >> kFilterBits), clamped8(b >> kFilterBits)}; }
};

// The inputs that some outputs of an axis see.
struct Window {
  int32_t begin, end;
  __device__ Window(const int32_t* starts, int32_t first, int32_t outputs, int32_t taps) {
    const int32_t a = starts[first], b = starts[min(first + kTile, outputs) - 1];  // starts rise, or fall if flipped
    begin = min(a, b);
    end = max(a, b) + taps;
  }
};

// Bytes [from, to) of a row to shared memory, block by block of 16 that are aligned in the source; the block at `block`, of `from`'s
// on. Blocks that reach over the ends, where other memory may begin, are copied by bytes.
__device__ void stage_block(const uint8_t* from, const uint8_t* to, int32_t block, uint8_t* stage) {
  const uint8_t* source = reinterpret_cast<const uint8_t*>(reinterpret_cast<uintptr_t>(from) & ~uintptr_t{15}) + 16 * block;
  if (source >= from && source + 16 <= to) {
    *reinterpret_cast<uint4*>(stage + 16 * block) = __ldg(reinterpret_cast<const uint4*>(source));
    return;
  }
  for (int i = 0; i < 16; ++i)
    if (source + i >= from && source + i < to) stage[16 * block + i] = source[i];
}

__global__ void __launch_bounds__(kThreads) resample_tile(const __grid_constant__ FusedKernel kernel, int32_t stage_bytes) {
  extern __shared__ __align__(16) uint8_t shared[];
  uint32_t* const band = reinterpret_cast<uint32_t*>(shared);  // kTile rows of kTile pixels, RGBX
  uint8_t* const stage = shared + kTile * kTile * sizeof(uint32_t);
  const auto i = static_cast<int32_t>(blockIdx.z), lane = static_cast<int32_t>(threadIdx.x % 32), warp = static_cast<int32_t>(threadIdx.x / 32);
  const FusedParams& p = kernel.params[i];
  const int32_t width = kernel.out.w, height = kernel.out.h;
  const auto left = static_cast<int32_t>(blockIdx.x) * kTile, top = static_cast<int32_t>(blockIdx.y) * kTile;
  const int32_t *x_starts = kernel.table + p.x_table, *x_weights = x_starts + width;
  const int32_t *y_starts = kernel.table + p.y_table, *y_weights = y_starts + height;
  const Window columns(x_starts, left, width, p.x_taps), rows(y_starts, top, height, p.y_taps);
  const int32_t row_bytes = staged_row_bytes(columns.end - columns.begin, p.pixel_bytes), blocks = row_bytes / 16;
  const int32_t band_rows = min(kTile, stage_bytes / row_bytes);

  const int32_t x = min(left + lane, width - 1);  // lanes beyond the edge work on its pixel, and do not store it
  const int32_t first_byte = (x_starts[x] - columns.begin) * p.pixel_bytes;
  int32_t ys[kRows], y_start[kRows];
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    ys[k] = min(top + warp + kWarps * k, height - 1);
    y_start[k] = y_starts[ys[k]];
  }

  Sums outputs[kRows];
  for (int32_t band_top = rows.begin; band_top < rows.end; band_top += band_rows) {
    const int32_t count = min(band_rows, rows.end - band_top);
    const uint8_t* const source = p.pixels + int64_t{band_top} * p.pitch;
    for (int32_t at = static_cast<int32_t>(threadIdx.x); at < count * blocks; at += kThreads) {
      const int32_t row = at / blocks;
      const uint8_t* const pixels = source + int64_t{row} * p.pitch;
      const uint8_t* const from = pixels + int64_t{columns.begin} * p.pixel_bytes;
      const uint8_t* const to = pixels + int64_t{columns.end} * p.pixel_bytes;
      stage_block(from, to, at - row * blocks, stage + row * row_bytes);
    }
    __syncthreads();

    int32_t byte[kRows];  // of this lane's first input, by row
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      const int32_t row = min(warp + kWarps * k, count - 1);
      const uint8_t* const from = source + int64_t{row} * p.pitch + int64_t{columns.begin} * p.pixel_bytes;
      byte[k] = row * row_bytes + static_cast<int32_t>(reinterpret_cast<uintptr_t>(from) & 15) + first_byte;
    }
    Sums across[kRows];
    const uint32_t* const words = reinterpret_cast<const uint32_t*>(stage);
    for (int32_t t = 0; t < p.x_taps; ++t) {
      const int32_t weight = x_weights[t * width + x];
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        const int32_t word = byte[k] >> 2;
        across[k].add(weight, __funnelshift_r(words[word], words[word + 1], (byte[k] & 3) * 8));
        byte[k] += p.pixel_bytes;
      }
    }
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      const Rgb8 pixel = across[k].rounded();
      band[(warp + kWarps * k) * kTile + lane] = static_cast<uint32_t>(pixel.r | pixel.g << 8 | pixel.b << 16);
    }
    __syncthreads();

#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      const int32_t before = band_top - y_start[k];  // taps of earlier bands
      const int32_t last = min(static_cast<int32_t>(p.y_taps), before + count);
      for (int32_t t = max(before, 0); t < last; ++t)
        outputs[k].add(y_weights[t * height + ys[k]], band[(t - before) * kTile + lane]);
    }
    __syncthreads();
  }

  long long grey = 0;
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    const int32_t y = top + warp + kWarps * k;
    if (left + lane < width && y < height) grey += kernel.emit(i, int64_t{y} * width + x, outputs[k].rounded());
  }
  if (!p.waits_for_mean()) return;
  for (int offset = 16; offset > 0; offset /= 2) grey += __shfl_down_sync(0xFFFFFFFFu, grey, offset);
  if (lane == 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(kernel.grey_sums + kernel.samples.first + i), static_cast<unsigned long long>(grey));
}

// What the widest tile of any sample needs, for whole bands if that is not too much.
int32_t stage_bytes_of(const FusedKernel& kernel) {
  int64_t most = 0;
  for (int32_t i = 0; i < kernel.samples.count; ++i) {
    const FusedParams& p = kernel.params[i];
    const int64_t columns = std::min<int64_t>(p.in_width, int64_t{kTile} * p.in_width / p.resized_width + 2 * p.x_taps);
    most = std::max<int64_t>(most, int64_t{kTile} * staged_row_bytes(static_cast<int32_t>(columns), p.pixel_bytes));
  }
  return static_cast<int32_t>(std::min<int64_t>(most, kMostStageBytes));
}

}  // namespace

void resample(const FusedKernel& kernel, const Place& place) {
  static_assert(sizeof(FusedKernel) + sizeof(int32_t) <= 4096, "arguments of a kernel");
  constexpr size_t kOverread = 16;  // of the last pixel's second word
  const auto tiles = [](int32_t n) { return static_cast<unsigned>((n + kTile - 1) / kTile); };
  const DeviceGuard guard(place.device);
  const int32_t stage_bytes = stage_bytes_of(kernel);
  const dim3 grid(tiles(kernel.out.w), tiles(kernel.out.h), static_cast<unsigned>(kernel.samples.count));
  resample_tile<<<grid, kThreads, kTile * kTile * sizeof(uint32_t) + static_cast<size_t>(stage_bytes) + kOverread,
                  static_cast<cudaStream_t>(place.stream)>>>(kernel, stage_bytes);
  check(cudaGetLastError(), "the resize could not be started");
}

}  // namespace millrace::cuda
