// The accelerators of torch, through its device-neutral guards, allocators and copies.
#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "millrace/error.h"
#include "torch_bridge/tensor_device.h"

namespace millrace::torch_bridge {
namespace {

using c10::impl::VirtualGuardImpl;

struct TorchEvent : device::DeviceEvent {
  TorchEvent(VirtualGuardImpl guard, c10::DeviceIndex index) : impl(guard), device_index(index) {}
  ~TorchEvent() override {
    if (event != nullptr) impl.destroyEvent(event, device_index);
  }
  const VirtualGuardImpl impl;
  const c10::DeviceIndex device_index;
  void* event = nullptr;  // made by the first record()
};

struct TorchMemory : device::DeviceMemory {
  explicit TorchMemory(at::Tensor memory) : bytes(std::move(memory)) {}
  void* data() const override { return bytes.data_ptr(); }
  at::Tensor bytes;
};

struct TorchHostMemory : device::HostMemory {
  explicit TorchHostMemory(at::Tensor memory) : bytes(std::move(memory)) {}
  uint8_t* data() const override { return static_cast<uint8_t*>(bytes.data_ptr()); }
  at::Tensor bytes;
};

at::Tensor host_bytes(size_t bytes, bool page_locked) {
  return at::empty({static_cast<int64_t>(bytes)},
                   at::TensorOptions().dtype(at::kByte).pinned_memory(page_locked));
}

// Streams that no copier uses at present. A stream is used again, because torch's allocator gives memory that
// was freed on one stream to that one only: a new stream for each epoch would take new device memory for
// each.
class IdleStreams {
 public:
  device::StreamId take(const VirtualGuardImpl& impl, at::Device device) {
    const std::lock_guard lock(mutex_);
    std::vector<device::StreamId>& idle = idle_[{device.type(), device.index()}];
    if (idle.empty()) return impl.getStreamFromGlobalPool(device).id();
    const device::StreamId stream = idle.back();
    idle.pop_back();
    return stream;
  }
  void put(at::Device device, const std::vector<device::StreamId>& streams) {
    const std::lock_guard lock(mutex_);
    std::vector<device::StreamId>& idle = idle_[{device.type(), device.index()}];
    idle.insert(idle.end(), streams.begin(), streams.end());
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<at::DeviceType, at::DeviceIndex>, std::vector<device::StreamId>> idle_;
};
IdleStreams& idle_streams =
    *new IdleStreams;  // never destroyed: copiers may end after static destructors ran

class TorchDevice final : public TensorDevice {
 public:
  explicit TorchDevice(at::Device device) : device_(device), impl_(device.type()) {}
  ~TorchDevice() override { idle_streams.put(device_, streams_); }

  at::Device where() const override { return device_; }
  device::StreamId new_stream() override { return streams_.emplace_back(idle_streams.take(impl_, device_)); }
  device::StreamId current_stream() override { return impl_.getStream(device_).id(); }
  void* native_stream(device::StreamId id) override { return stream(id).native_handle(); }

  Current enter(Current current) override {
    const device::StreamId before = impl_.exchangeStream(stream(current.stream)).id();
    const auto index = static_cast<c10::DeviceIndex>(current.device_index);
    return {impl_.exchangeDevice(at::Device(device_.type(), index)).index(), before};
  }

  std::unique_ptr<device::DeviceEvent> new_event() override {
    return std::make_unique<TorchEvent>(impl_, device_.index());
  }
  void record(device::DeviceEvent& event, device::StreamId on) override {
    auto& mine = static_cast<TorchEvent&>(event);
    impl_.record(&mine.event, stream(on), device_.index(), c10::EventFlag::PYTORCH_DEFAULT);
  }
  void wait(device::StreamId waiting, device::DeviceEvent& event) override {
    if (void* mine = static_cast<TorchEvent&>(event).event) impl_.block(mine, stream(waiting));
  }
  bool is_done(device::DeviceEvent& event) override {
    void* mine = static_cast<TorchEvent&>(event).event;
    return mine == nullptr || impl_.queryEvent(mine);
  }
  void synchronize(device::DeviceEvent& event) override {
    if (void* mine = static_cast<TorchEvent&>(event).event) impl_.synchronizeEvent(mine);
  }

  std::unique_ptr<device::DeviceMemory> allocate(size_t bytes, device::StreamId on) override {
    const c10::StreamGuard guard(stream(on));
    return std::make_unique<TorchMemory>(
        at::empty({static_cast<int64_t>(bytes)}, at::TensorOptions().dtype(at::kByte).device(device_)));
  }
  void used_on(device::DeviceMemory& memory, device::StreamId by) override {
    used_on(static_cast<TorchMemory&>(memory).bytes, by);
  }
  void used_on(const at::Tensor& tensor, device::StreamId by) override {
    impl_.recordDataPtrOnStream(tensor.storage().data_ptr(), stream(by));
  }

  // torch's allocator of page-locked memory keeps what it has, so only the first batches ask the system.
  std::unique_ptr<device::HostMemory> allocate_host(size_t bytes) override {
    if (lock_failure().empty()) {
      try {
        return std::make_unique<TorchHostMemory>(host_bytes(bytes, true));
      } catch (const c10::Error& error) {
        const std::lock_guard lock(mutex_);
        lock_failure_ = error.what_without_backtrace();
      }
    }
    return std::make_unique<TorchHostMemory>(host_bytes(bytes, false));
  }
  std::string lock_failure() const override {
    const std::lock_guard lock(mutex_);
    return lock_failure_;
  }

  void copy_to_device(void* to, const void* from, size_t bytes, device::StreamId on) override {
    const c10::StreamGuard guard(stream(on));
    const auto size = static_cast<int64_t>(bytes);
    const auto options = at::TensorOptions().dtype(at::kByte);
    const at::Tensor target = at::from_blob(to, {size}, [](void*) {}, options.device(device_), device_);
    target.copy_(at::from_blob(const_cast<void*>(from), {size}, options), /*non_blocking=*/true);
  }

  // A tensor of its own over the storage, and no view: views share a version counter, so writing into one
  // field in place would spoil what autograd saved of another.
  at::Tensor tensor(const device::DeviceBlock& block, const TensorField& field) override {
    const auto options = at::TensorOptions().dtype(static_cast<at::ScalarType>(field.type)).device(device_);
    const auto offset = static_cast<int64_t>(block.offset / options.dtype().itemsize());
    at::Tensor tensor = at::empty({0}, options);
    const at::Storage& storage = static_cast<const TorchMemory&>(*block.memory).bytes.storage();
    if (field.strides.empty())
      tensor.set_(storage, offset, field.sizes);
    else
      tensor.set_(storage, offset, field.sizes, field.strides);
    return tensor;
  }

 private:
  c10::Stream stream(device::StreamId id) const { return c10::Stream(c10::Stream::UNSAFE, device_, id); }

  const at::Device device_;
  const VirtualGuardImpl impl_;
  std::vector<device::StreamId> streams_;  // given back at the end
  mutable std::mutex mutex_;               // guards what follows
  std::string lock_failure_;
};

}  // namespace

std::shared_ptr<TensorDevice> torch_device(at::Device device) {
  return std::make_shared<TorchDevice>(device);
}

}  // namespace millrace::torch_bridge
