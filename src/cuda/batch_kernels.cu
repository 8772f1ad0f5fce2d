// The kernels on a grid: a thread per group of eight pixels, a row of blocks per sample.
#include <cuda_runtime.h>

#include <algorithm>

#include "cuda/count_levels.cuh"
#include "cuda/cuda_error.h"
#include "device/all_kernels.h"
#include "device/kernel_launch.h"

namespace millrace::cuda {
namespace {

constexpr int kThreads = 256;

template <class Kernel>
__global__ void __launch_bounds__(kThreads) each_group(const __grid_constant__ Kernel kernel) {
  const int64_t group = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (group < kernel.groups()) kernel(static_cast<int32_t>(blockIdx.y), group);
}

// Whole numbers: the order of the additions does not matter.
__global__ void __launch_bounds__(kThreads) sum_groups(const __grid_constant__ device::ColorKernel kernel) {
  const auto sample = static_cast<int32_t>(blockIdx.y);
  long long sum = 0;
  for (int64_t group = int64_t{blockIdx.x} * kThreads + threadIdx.x; group < kernel.groups();
       group += int64_t{gridDim.x} * kThreads)
    sum += kernel.grey_sum(sample, group);
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xFFFFFFFFu, sum, offset);
  if (threadIdx.x % 32 == 0 && sum != 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(kernel.grey_sums + kernel.samples.first + sample),
              static_cast<unsigned long long>(sum));
}

template <class Kernel>
dim3 grid_of(const Kernel& kernel) {
  static_assert(sizeof(Kernel) <= device::kMostKernelBytes, "an argument of a kernel");
  return dim3(static_cast<unsigned>((kernel.groups() + kThreads - 1) / kThreads),
              static_cast<unsigned>(kernel.samples.count));
}

}  // namespace

template <class Kernel>
void launch(const Kernel& kernel, const device::Place& place) {
  const DeviceGuard guard(place.device);
  each_group<<<grid_of(kernel), kThreads, 0, static_cast<cudaStream_t>(place.stream)>>>(kernel);
  check(cudaGetLastError(), "a kernel could not be started");
}

void add_grey_sums(const device::ColorKernel& kernel, const device::Place& place) {
  constexpr unsigned kMostBlocks = 32;  // per sample: enough for a GPU, few enough for their sums to be cheap
  const DeviceGuard guard(place.device);
  dim3 grid = grid_of(kernel);
  grid.x = std::min(grid.x, kMostBlocks);
  sum_groups<<<grid, kThreads, 0, static_cast<cudaStream_t>(place.stream)>>>(kernel);
  check(cudaGetLastError(), "a kernel could not be started");
}

void count_levels(const device::CountKernel& kernel, const device::Place& place) {
  constexpr unsigned kMostBlocks = 32;  // per sample, as above
  const DeviceGuard guard(place.device);
  dim3 grid = grid_of(kernel);
  grid.x = std::min(grid.x, kMostBlocks);
  count_groups<<<grid, kCountThreads, kEntries * sizeof(unsigned), static_cast<cudaStream_t>(place.stream)>>>(
      kernel);
  check(cudaGetLastError(), "a kernel could not be started");
}

#define MILLRACE_INSTANTIATE(Kernel) template void launch(const device::Kernel&, const device::Place&);
MILLRACE_FOR_ALL_KERNELS(MILLRACE_INSTANTIATE)
#undef MILLRACE_INSTANTIATE

}  // namespace millrace::cuda
