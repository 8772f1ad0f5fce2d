#include "cuda/cuda_error.h"

#include "device/kernel_launch.h"

namespace millrace::cuda {
namespace {

std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

}  // namespace

std::string explain(cudaError_t code) {
  const std::string said = std::string(cudaGetErrorString(code)) + " (" + cudaGetErrorName(code) + ")";
  switch (code) {
    case cudaErrorNoDevice:
      return "there is no CUDA device here; run on a machine with an NVIDIA GPU, or use CPU tensors";
    case cudaErrorInsufficientDriver: {
      int driver = 0;
      cudaDriverGetVersion(&driver);
      if (driver == 0)
        return "there is no NVIDIA driver here; run on a machine with an NVIDIA GPU, or use CPU tensors";
      return "the NVIDIA driver is for CUDA " + version(driver) + ", older than the CUDA " +
             version(CUDART_VERSION) +
             " that millrace was built with; install a newer driver, build millrace with an older CUDA "
             "toolkit, or use CPU tensors";
    }
    case cudaErrorInvalidDevice: {
      int count = 0;
      cudaGetDeviceCount(&count);
      return said + "; there are " + std::to_string(count) + " devices, counted from 0";
    }
    case cudaErrorMemoryAllocation: return said + "; use smaller batches, or fewer of them in flight";
    case cudaErrorNoKernelImageForDevice:
      return said + "; millrace needs a GPU of compute capability 8.0 (Ampere) or newer";
    default: return said;
  }
}

std::string missing_reason() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return "";
  cudaGetLastError();
  return explain(code == cudaSuccess ? cudaErrorNoDevice : code);
}

}  // namespace millrace::cuda
