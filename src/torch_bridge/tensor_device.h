// TensorDevice: a Device whose memory torch tensors can lie in; and the one for every accelerator that torch
// knows.
//
// Streams, events, memory and copies are torch's own, asked for through its device-neutral interface: nothing
// here is linked to CUDA, and the streams that users and torch work with, its allocator (whichever it is),
// and record_stream() are the same as theirs. Sees libtorch; for torch_bridge and for the tests' fake device.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "device/batch_copier.h"
#include "torch_bridge/tensor.h"

namespace millrace::torch_bridge {

class TensorDevice : public device::Device {
 public:
  virtual at::Device where() const = 0;  // of its tensors
  // A tensor over the block, row-major or with the field's strides; owns its part of the memory.
  virtual at::Tensor tensor(const device::DeviceBlock& block, const TensorField& field) = 0;
  using device::Device::used_on;
  virtual void used_on(const at::Tensor& tensor, device::StreamId stream) = 0;
  // Makes the stream the calling thread's current one, and this device its current device; returns what they
  // were before.
  struct Current {
    int device_index;
    device::StreamId stream;  // of this device
  };
  virtual Current enter(Current current) = 0;
  // Why host memory could not be page-locked; empty while it could.
  virtual std::string lock_failure() const = 0;
};

// `device`: with an index, and of an accelerator that torch was built with and finds here; else
// Error(unavailable).
std::shared_ptr<TensorDevice> torch_device(at::Device device);

}  // namespace millrace::torch_bridge
