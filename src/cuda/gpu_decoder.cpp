#include "device/gpu_decoder.h"

#include <cuda_runtime_api.h>

#include "cuda/cuda_error.h"
#include "cuda/nvjpeg_decoder.h"
#include "device/kernel_launch.h"

namespace millrace::cuda {
namespace {

class CudaCalls final : public DeviceCalls {
 public:
  explicit CudaCalls(int device) : device_(device) {}
  void make_current() override { check(cudaSetDevice(device_), "the CUDA device cannot be used"); }
  bool allocate(void** memory, size_t bytes) override {
    if (cudaMalloc(memory, bytes) == cudaSuccess) return true;
    cudaGetLastError();
    return false;
  }
  void release(void* memory) override { cudaFree(memory); }
  bool allocate_pinned(void** memory, size_t bytes) override {
    if (cudaHostAlloc(memory, bytes, cudaHostAllocDefault) == cudaSuccess) return true;
    cudaGetLastError();
    return false;
  }
  void release_pinned(void* memory) override { cudaFreeHost(memory); }
  void* new_event() override {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "a CUDA event could not be made");
    return event;
  }
  void delete_event(void* event) override { cudaEventDestroy(static_cast<cudaEvent_t>(event)); }
  void record(void* event, void* stream) override {
    check(cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream)),
          "a CUDA event could not be recorded");
  }
  void wait(void* event) override {
    check(cudaEventSynchronize(static_cast<cudaEvent_t>(event)), "decoding on the GPU failed");
  }

 private:
  const int device_;
};

}  // namespace
}  // namespace millrace::cuda

namespace millrace::device {

std::unique_ptr<GpuDecoder> GpuDecoder::open(const Options& options) {
  if (const std::string reason = cuda::missing_reason(); !reason.empty())
    throw Error(ErrorKind::unavailable, reason);
  return cuda::make_nvjpeg_decoder(cuda::NvjpegLibrary::load(options.library),
                                   std::make_unique<cuda::CudaCalls>(options.device),
                                   options.memory_ceiling_bytes);
}

}  // namespace millrace::device
