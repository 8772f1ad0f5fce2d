// DeviceBatch: a batch as tensors on a device, and the DeviceCopier that makes them. Needs libtorch.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "millrace/batch.h"
#include "millrace/error.h"
#include "millrace/torch_tensor.h"

namespace millrace {

// What Batch is on the host.
struct DeviceBatch {
  struct Tensor {
    std::string name;
    at::Tensor values;
    at::Tensor offsets;  // of ragged fields, on the device, too; else undefined
  };
  int64_t number = 0;
  std::vector<int64_t> indices;
  std::vector<Tensor> tensors;

  const at::Tensor& operator[](std::string_view name) const { return field(name).values; }
  // Throws Error(invalid_argument) naming the fields that there are, or that the batch is empty.
  const Tensor& field(std::string_view name) const {
    if (tensors.empty())
      throw Error(ErrorKind::invalid_argument,
                  "this DeviceBatch is empty, so it has no field \"" + std::string(name) +
                      "\": next() returned false or threw, or the batch was moved from");
    std::string known;
    for (const Tensor& tensor : tensors) {
      if (tensor.name == name) return tensor;
      known += (known.empty() ? "" : ", ") + tensor.name;
    }
    throw Error(ErrorKind::invalid_argument,
                "DeviceBatch: no field is called \"" + std::string(name) + "\"; there are: " + known);
  }
};

// Copies batches to a device on a stream of its own. A batch in host memory is kept until its copies are
// done. On the CPU it copies nothing: tensors lie over the batch's memory. It names no CUDA: streams and
// events are libtorch's device-neutral ones. copy() and wait() of one thread, under a guard(); ready() of the
// thread that uses the tensors.
class DeviceCopier {
 public:
  struct Copied {
    DeviceBatch batch;
    std::optional<c10::Event> done;  // none on the CPU
  };

  // Throws Error(unavailable) for a device that libtorch does not see.
  explicit DeviceCopier(at::Device device) : device_(checked(device)) {
    if (device_.is_cpu()) return;
    at::globalContext().lazyInitDevice(device_.type());
    stream_ = c10::impl::VirtualGuardImpl(device_.type()).getStreamFromGlobalPool(device_);
  }

  at::Device device() const { return device_; }

  Copied copy(Batch batch) {
    std::optional<c10::StreamGuard> guard;
    if (stream_) guard.emplace(*stream_);
    while (!copying_.empty() && copying_.front().first.query()) copying_.pop_front();
    Copied made{{batch.number(), batch.indices(), {}}, std::nullopt};
    try {
      for (const Field& field : batch.fields()) {
        at::Tensor values = as_torch(field), offsets = offsets_as_torch(field);
        if (stream_) {
          values = values.to(device_, values.scalar_type(), /*non_blocking=*/true);
          if (offsets.defined()) offsets = offsets.to(device_);
        }
        made.batch.tensors.push_back({field.name(), std::move(values), std::move(offsets)});
      }
      if (!stream_) return made;
      made.done.emplace(device_.type());
      made.done->record(*stream_);
      c10::Event read(device_.type());
      read.record(*stream_);
      copying_.emplace_back(std::move(read), std::move(batch));
    } catch (...) {  // what was begun still reads the batch
      if (stream_) c10::impl::VirtualGuardImpl(device_.type()).synchronizeStream(*stream_);
      throw;
    }
    return made;
  }

  // The tensors are as if computed on the calling thread's current stream: later work there finds them, and
  // their memory is not used again before that work is done. The host does not wait.
  DeviceBatch ready(Copied made) const {
    if (!made.done) return std::move(made.batch);
    const c10::Stream current = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
    made.done->block(current);
    for (const DeviceBatch::Tensor& tensor : made.batch.tensors) {
      tensor.values.record_stream(current);
      if (tensor.offsets.defined()) tensor.offsets.record_stream(current);
    }
    return std::move(made.batch);
  }

  // Until all copies are done; then no batch is kept.
  void wait() {
    if (stream_ && !copying_.empty()) c10::impl::VirtualGuardImpl(device_.type()).synchronizeStream(*stream_);
    copying_.clear();
  }

 private:
  static at::Device checked(at::Device device) {
    if (device.is_cpu()) return device;
    if (at::accelerator::isAccelerator(device.type()) && c10::impl::hasDeviceGuardImpl(device.type())) {
      const c10::impl::VirtualGuardImpl guard(device.type());
      if (guard.deviceCount() > 0 && device.index() < guard.deviceCount())
        return device.has_index() ? device : guard.getDevice();
    }
    throw Error(ErrorKind::unavailable,
                "DeviceLoader: libtorch sees no device " + device.str() +
                    "; build against a libtorch for it, on a machine that has it, or pass torch::kCPU");
  }

  at::Device device_;
  std::optional<c10::Stream> stream_;  // none on the CPU
  std::deque<std::pair<c10::Event, Batch>> copying_;
};

}  // namespace millrace
