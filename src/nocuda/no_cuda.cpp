// The functions of src/cuda in a build without a CUDA toolkit.
#include "device/all_kernels.h"
#include "device/host_pages.h"
#include "device/kernel_launch.h"
#include "millrace/error.h"
#include "trace/nvtx.h"

namespace millrace::cuda {

std::string missing_reason() {
  return "this millrace was built without CUDA; install the CUDA toolkit (nvcc), build millrace again, or "
         "use CPU tensors";
}

const trace::RangeSink* nvtx_sink() { return nullptr; }
std::string lock_pages(void*, size_t, int) { return missing_reason(); }
void unlock_pages(void*) noexcept {}

namespace {
[[noreturn]] void refuse() { throw Error(ErrorKind::unavailable, missing_reason()); }
}  // namespace

template <class Kernel>
void launch(const Kernel&, const device::Place&) {
  refuse();
}
void add_grey_sums(const device::ColorKernel&, const device::Place&) { refuse(); }
void resample(const device::FusedKernel&, const device::Place&) { refuse(); }
void count_levels(const device::CountKernel&, const device::Place&) { refuse(); }

#define MILLRACE_INSTANTIATE(Kernel) template void launch(const device::Kernel&, const device::Place&);
MILLRACE_FOR_ALL_KERNELS(MILLRACE_INSTANTIATE)
#undef MILLRACE_INSTANTIATE

}  // namespace millrace::cuda
