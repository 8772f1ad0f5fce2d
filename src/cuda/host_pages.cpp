#include "device/host_pages.h"

#include "cuda/cuda_error.h"

namespace millrace::cuda {

std::string lock_pages(void* data, size_t bytes, int device) {
  try {
    const DeviceGuard guard(device);
    const cudaError_t code = cudaHostRegister(data, bytes, cudaHostRegisterPortable);
    if (code == cudaSuccess) return "";
    cudaGetLastError();  // not left for the next call, ours or torch's
    return std::string(cudaGetErrorString(code)) + " (" + cudaGetErrorName(code) + ")";
  } catch (const Error& error) {
    return error.what();
  }
}

void unlock_pages(void* data) noexcept {
  if (cudaHostUnregister(data) != cudaSuccess) cudaGetLastError();  // the driver has ended before us
}

}  // namespace millrace::cuda
