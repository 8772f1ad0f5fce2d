// A fake device without one of the calls that guards are made of: what is tested on it must go wrong.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "fake_device.h"

namespace millrace::device {

enum class Guard { none, wait, used_on, is_done, record, record_behind_copies, synchronize };

// The device without one of the calls that the copier's guards are made of.
class Forgetful : public Device {
 public:
  Forgetful(std::shared_ptr<FakeDevice> device, Guard forgotten)
      : device_(std::move(device)), forgotten_(forgotten) {}
  StreamId new_stream() override { return device_->new_stream(); }
  StreamId current_stream() override { return device_->current_stream(); }
  void* native_stream(StreamId stream) override { return device_->native_stream(stream); }
  std::unique_ptr<DeviceEvent> new_event() override { return device_->new_event(); }
  void record(DeviceEvent& event, StreamId stream) override {
    if (forgotten_ != Guard::record) device_->record(event, stream);
    for (const auto& copy : std::exchange(held_back_, {})) copy();
  }
  void wait(StreamId stream, DeviceEvent& event) override {
    if (forgotten_ != Guard::wait) device_->wait(stream, event);
  }
  bool is_done(DeviceEvent& event) override {
    return forgotten_ == Guard::is_done || device_->is_done(event);
  }
  void synchronize(DeviceEvent& event) override {
    if (forgotten_ != Guard::synchronize) device_->synchronize(event);
  }
  std::unique_ptr<DeviceMemory> allocate(size_t bytes, StreamId stream) override {
    return device_->allocate(bytes, stream);
  }
  void used_on(DeviceMemory& memory, StreamId stream) override {
    if (forgotten_ != Guard::used_on) device_->used_on(memory, stream);
  }
  std::unique_ptr<HostMemory> allocate_host(size_t bytes) override { return device_->allocate_host(bytes); }
  void copy_to_device(void* to, const void* from, size_t bytes, StreamId stream) override {
    if (forgotten_ != Guard::record_behind_copies) return device_->copy_to_device(to, from, bytes, stream);
    held_back_.push_back([=, this] { device_->copy_to_device(to, from, bytes, stream); });
  }

 private:
  std::shared_ptr<FakeDevice> device_;
  Guard forgotten_;
  std::vector<std::function<void()>> held_back_;
};

}  // namespace millrace::device
