// TensorDevice: a Device with memory in which torch tensors can lie; and the one for every accelerator that
// torch knows.
//
// Streams, events, memory and copies are torch's own, asked for through its device-neutral Python interface:
// nothing here is linked to CUDA, and the streams that users and torch work with, its allocator (whichever it
// is), and record_stream() are the same as theirs. For this module and for the tests' fake device.
#pragma once

#include <memory>
#include <string>

#include "device/batch_copier.h"
#include "tensors/tensor.h"

namespace millrace::tensors {

class TensorDevice : public device::Device {
 public:
  struct Place {
    int type;  // torch's number
    int index;
  };
  virtual Place where() const = 0;  // of its tensors
  // The following need the GIL. Whether the tensor has memory there.
  virtual bool holds(_object* tensor) const = 0;
  // A new reference to a tensor over the block, row-major or with the field's strides; owns its part of the
  // memory. Throws pybind11::error_already_set.
  virtual _object* tensor(const device::DeviceBlock& block, const TensorField& field) = 0;
  using device::Device::used_on;
  virtual void used_on(_object* tensor, device::StreamId stream) = 0;
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

// `name`: as torch.device takes it, with an index, of an accelerator that torch was built with and finds
// here. Needs the GIL; all calls of the result but those above take it themselves, so a caller holds no lock
// that a thread with the GIL waits for. Errors are torch's: pybind11::error_already_set.
std::shared_ptr<TensorDevice> torch_device(const std::string& name);

}  // namespace millrace::tensors
