// A block of CUDA threads as threads of the CPU: the words that the .cuh files use, with CUDA's meaning.
// For tests on machines without a GPU; hundreds of times slower.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__
#define __align__(n)

struct uint4 {
  uint32_t x, y, z, w;
};
struct EmulatedIndex {
  unsigned x = 0, y = 0, z = 0;
};
inline thread_local EmulatedIndex threadIdx, blockIdx;
inline EmulatedIndex gridDim;

using std::max;
using std::min;
template <class T>
T __ldg(const T* p) {
  return *p;
}
inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, int32_t shift) {
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> (shift & 31));
}
inline void atomicAdd(unsigned long long* sum, unsigned long long v) { std::atomic_ref(*sum).fetch_add(v); }
inline void atomicAdd(unsigned* sum, unsigned v) { std::atomic_ref(*sum).fetch_add(v); }

// The block that the current thread belongs to.
struct EmulatedBlock {
  explicit EmulatedBlock(int threads) : all(threads), exchanged(static_cast<size_t>(threads)) {
    for (int warp = 0; warp < threads / 32; ++warp) warps.push_back(std::make_unique<std::barrier<>>(32));
  }
  std::barrier<> all;
  std::vector<std::unique_ptr<std::barrier<>>> warps;
  std::vector<long long> exchanged;
};
inline thread_local EmulatedBlock* emulated_block = nullptr;

inline void __syncthreads() { emulated_block->all.arrive_and_wait(); }
inline long long __shfl_down_sync(uint32_t, long long v, int offset) {
  auto& warp = *emulated_block->warps[threadIdx.x / 32];
  emulated_block->exchanged[threadIdx.x] = v;
  warp.arrive_and_wait();
  const unsigned from = threadIdx.x % 32 + static_cast<unsigned>(offset) < 32
                            ? threadIdx.x + static_cast<unsigned>(offset)
                            : threadIdx.x;
  const long long result = emulated_block->exchanged[from];
  warp.arrive_and_wait();
  return result;
}

// kernel() by every thread of every block, a block at a time.
template <class Kernel>
void run_grid(EmulatedIndex grid, int threads, Kernel&& kernel) {
  EmulatedBlock block(threads);
  gridDim = grid;
  const auto body = [&](unsigned thread) {
    emulated_block = &block;
    threadIdx = {thread, 0, 0};
    for (unsigned z = 0; z < grid.z; ++z)
      for (unsigned y = 0; y < grid.y; ++y)
        for (unsigned x = 0; x < grid.x; ++x) {
          blockIdx = {x, y, z};
          kernel();
          block.all.arrive_and_wait();
        }
  };
  std::vector<std::jthread> helpers;
  for (int t = 0; t < threads; ++t) helpers.emplace_back(body, static_cast<unsigned>(t));
}
