// GpuDecoder in a build without a CUDA toolkit.
#include "device/gpu_decoder.h"
#include "device/kernel_launch.h"
#include "millrace/error.h"

namespace millrace::device {

std::unique_ptr<GpuDecoder> GpuDecoder::open(const Options&) {
  throw Error(ErrorKind::unavailable, cuda::missing_reason());
}

}  // namespace millrace::device
