// CUDA's error codes as Error(unavailable), and the device that a call works on.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "millrace/error.h"

namespace millrace::cuda {

// A sentence with the remedy where there is one.
std::string explain(cudaError_t code);

inline void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // not left for the next call, ours or torch's
  throw Error(ErrorKind::unavailable, std::string(what) + ": " + explain(code));
}

// Makes `device` the thread's current one for a while.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) {
    check(cudaGetDevice(&before_), "CUDA has no current device");
    if (before_ != device) check(cudaSetDevice(device), "the CUDA device cannot be used");
    changed_ = before_ != device;
  }
  ~DeviceGuard() {
    if (changed_) cudaSetDevice(before_);
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace millrace::cuda
