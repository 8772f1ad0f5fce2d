// The resize of fused_augment() on a grid: tiles by tiles by samples.
#include <cuda_runtime.h>

#include "cuda/cuda_error.h"
#include "cuda/resample_tile.cuh"
#include "device/kernel_launch.h"

namespace millrace::cuda {

void resample(const device::FusedKernel& kernel, const device::Place& place) {
  static_assert(sizeof(device::FusedKernel) + sizeof(int32_t) <= device::kMostKernelBytes,
                "arguments of a kernel");
  const auto tiles = [](int32_t n) { return static_cast<unsigned>((n + device::kTile - 1) / device::kTile); };
  const DeviceGuard guard(place.device);
  const int32_t stage_bytes = stage_bytes_of(kernel);
  const dim3 grid(tiles(kernel.most_width), tiles(kernel.most_height),
                  static_cast<unsigned>(kernel.samples.count));
  resample_tile<<<grid, kThreads, static_cast<size_t>(shared_bytes_of(stage_bytes)),
                  static_cast<cudaStream_t>(place.stream)>>>(kernel, stage_bytes);
  check(cudaGetLastError(), "the resize could not be started");
}

}  // namespace millrace::cuda
