// The kernels on the CPU: the same functions in a loop.
#include "device/batch_kernels.h"
#include "device/box_kernels.h"
#include "device/fused_kernels.h"
#include "device/kernel_launch.h"
#include "device/reference_threads.h"

namespace millrace::reference {

template <class Kernel>
void launch(const Kernel& kernel) {
  for_samples(kernel.samples.count, kernel.groups(), [&](int32_t i) {
    for (int64_t g = 0; g < kernel.groups(); ++g) kernel(i, g);
  });
}

void add_grey_sums(const ColorKernel& kernel) {
  for_samples(kernel.samples.count, kernel.groups(), [&](int32_t i) {
    for (int64_t g = 0; g < kernel.groups(); ++g) kernel.grey_sums[kernel.samples.first + i] += kernel.grey_sum(i, g);
  });
}

template void launch(const NormalizeKernel&);
template void launch(const FlipKernel&);
template void launch(const AffineKernel&);
template void launch(const ColorKernel&);
template void launch(const EraseKernel&);
template void launch(const MixKernel&);
template void launch(const WeightsKernel&);
template void launch(const FinishKernel&);

}  // namespace millrace::reference
