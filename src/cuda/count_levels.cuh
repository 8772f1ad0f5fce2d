// How often each byte occurs in the pictures of some passes, on the GPU: a block counts its part of a picture
// in shared memory, and adds that to the picture's counts.
//
// Included by batch_kernels.cu, and by a test that runs a block's threads on the CPU (tests/cpp/cuda).
#pragma once

#include <cstdint>

#include "device/line_kernels.h"

namespace millrace::cuda {
namespace {

constexpr int kCountThreads = 256, kEntries = 3 * 256;

__global__ void __launch_bounds__(kCountThreads)
    count_groups(const __grid_constant__ device::CountKernel kernel) {
  extern __shared__ unsigned counts[];  // kEntries
  const auto thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kEntries; i += kCountThreads) counts[i] = 0;
  __syncthreads();
  const auto sample = static_cast<int32_t>(blockIdx.y);
  for (int64_t group = int64_t{blockIdx.x} * kCountThreads + thread; group < kernel.groups();
       group += int64_t{gridDim.x} * kCountThreads)
    kernel(sample, group, [](int32_t entry) { atomicAdd(&counts[entry], 1u); });
  __syncthreads();
  uint32_t* const sums = kernel.passes[kernel.samples.first + sample].levels->counts;
  for (int i = thread; i < kEntries; i += kCountThreads)
    if (counts[i] != 0) atomicAdd(&sums[i], counts[i]);
}

}  // namespace
}  // namespace millrace::cuda
