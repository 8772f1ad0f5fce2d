// The GpuDecoder over nvJPEG. Its calls of CUDA go through an interface, so that its logic is tested without
// a GPU (tests/cpp/cuda).
#pragma once

#include <cstddef>
#include <memory>

#include "cuda/nvjpeg_library.h"
#include "device/gpu_decoder.h"

namespace millrace::cuda {

// Calls on one device, from one thread. They throw Error(unavailable) but for allocate().
class DeviceCalls {
 public:
  virtual ~DeviceCalls() = default;
  virtual void make_current() = 0;
  virtual bool allocate(void** memory, size_t bytes) = 0;  // of the device; false: there is none
  virtual void release(void* memory) = 0;
  virtual bool allocate_pinned(void** memory, size_t bytes) = 0;  // page-locked, of the host
  virtual void release_pinned(void* memory) = 0;
  virtual void* new_event() = 0;
  virtual void delete_event(void* event) = 0;
  virtual void record(void* event, void* stream) = 0;
  virtual void wait(void* event) = 0;  // by this thread; at once when it was never recorded
};

std::unique_ptr<device::GpuDecoder> make_nvjpeg_decoder(std::shared_ptr<const NvjpegLibrary> library,
                                                        std::unique_ptr<DeviceCalls> device,
                                                        size_t memory_ceiling_bytes);

}  // namespace millrace::cuda
