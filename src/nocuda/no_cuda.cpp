// The functions of src/cuda in a build without a CUDA toolkit.
#include "device/batch_kernels.h"
#include "device/box_kernels.h"
#include "device/fused_kernels.h"
#include "device/host_pages.h"
#include "device/kernel_launch.h"
#include "millrace/error.h"
#include "trace/nvtx.h"

namespace millrace::cuda {

std::string missing_reason() {
  return "this millrace was built without CUDA; install the CUDA toolkit (nvcc), build millrace again, or use CPU tensors";
}

const RangeSink* nvtx_sink() { return nullptr; }
std::string lock_pages(void*, size_t, int) { return missing_reason(); }
void unlock_pages(void*) noexcept {}

namespace {
[[noreturn]] void refuse() { throw Error(ErrorKind::unavailable, missing_reason()); }
}  // namespace

template <class Kernel>
void launch(const Kernel&, const Place&) { refuse(); }
void add_grey_sums(const ColorKernel&, const Place&) { refuse(); }
void resample(const FusedKernel&, const Place&) { refuse(); }

template void launch(const NormalizeKernel&, const Place&);
template void launch(const FlipKernel&, const Place&);
template void launch(const AffineKernel&, const Place&);
template void launch(const ColorKernel&, const Place&);
template void launch(const EraseKernel&, const Place&);
template void launch(const MixKernel&, const Place&);
template void launch(const WeightsKernel&, const Place&);
template void launch(const FinishKernel&, const Place&);

}  // namespace millrace::cuda
