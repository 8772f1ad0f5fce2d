// The kernels on the CPU: the same functions in a loop.
#include "device/all_kernels.h"
#include "device/kernel_launch.h"
#include "device/reference_threads.h"

namespace millrace::device::reference {

template <class Kernel>
void launch(const Kernel& kernel) {
  static_assert(sizeof(Kernel) <= kMostKernelBytes, "an argument of a kernel");  // seen without nvcc, too
  for_samples(kernel.samples.count, kernel.groups(), [&](int32_t i) {
    for (int64_t g = 0; g < kernel.groups(); ++g) kernel(i, g);
  });
}

void add_grey_sums(const ColorKernel& kernel) {
  for_samples(kernel.samples.count, kernel.groups(), [&](int32_t i) {
    for (int64_t g = 0; g < kernel.groups(); ++g)
      kernel.grey_sums[kernel.samples.first + i] += kernel.grey_sum(i, g);
  });
}

void count_levels(const CountKernel& kernel) {
  for_samples(kernel.samples.count, kernel.groups(), [&](int32_t i) {
    uint32_t* const counts = kernel.passes[kernel.samples.first + i].levels->counts;
    for (int64_t g = 0; g < kernel.groups(); ++g) kernel(i, g, [counts](int32_t entry) { ++counts[entry]; });
  });
}

#define MILLRACE_INSTANTIATE(Kernel) template void launch(const Kernel&);
MILLRACE_FOR_ALL_KERNELS(MILLRACE_INSTANTIATE)
#undef MILLRACE_INSTANTIATE

}  // namespace millrace::device::reference
