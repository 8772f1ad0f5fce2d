// Device: what millrace needs of an accelerator to bring batches to it: streams, events, memory, copies.
// Neutral types only.
//
// The rules are CUDA's. Work queued on one stream runs in order; streams run in any order but for waits on
// events. Calls return when the work is queued, not when it is done. Memory that is freed may be given at
// once to an allocation on the stream that it was allocated for, whose work comes later; every other stream
// that used it must have been named by used_on(). Implementations: tensors/torch_device.h, for every
// accelerator torch knows; a fake one in tests/cpp/device, whose copies come late. Any thread may call;
// memory belongs to one thread at a time, and so does an event while it is recorded; once it is, any number
// of threads may wait for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace millrace::device {

using StreamId = int64_t;  // the device's own number of a stream

// A moment on a stream. Not yet recorded, it counts as done.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
};

// Owned memory on the device; freed as the rules above say.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual void* data() const = 0;
};

// Owned memory of the host that copies to the device can read while the host goes on: page-locked, where that
// is possible.
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  virtual uint8_t* data() const = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual StreamId
  new_stream() = 0;  // for copies; may be used again by whoever comes when this object has ended
  virtual StreamId current_stream() = 0;  // the one on which the calling thread's work is queued
  virtual void* native_stream(
      StreamId stream) = 0;  // what the device's own libraries know it by: a cudaStream_t

  virtual std::unique_ptr<DeviceEvent> new_event() = 0;
  virtual void record(DeviceEvent& event,
                      StreamId stream) = 0;  // again: the event is the later moment from now on
  virtual void wait(
      StreamId stream,
      DeviceEvent& event) = 0;  // what is queued on the stream from now on comes after the event
  virtual bool is_done(DeviceEvent& event) = 0;
  virtual void synchronize(
      DeviceEvent& event) = 0;  // the calling thread waits; it must not hold Python's GIL

  // Throws Error(system, ENOMEM) when the device has not that much left.
  virtual std::unique_ptr<DeviceMemory> allocate(size_t bytes, StreamId stream) = 0;
  virtual void used_on(DeviceMemory& memory, StreamId stream) = 0;
  virtual std::unique_ptr<HostMemory> allocate_host(size_t bytes) = 0;

  // `from` must stay as it is until the copy is done: the caller's to see to, by an event.
  virtual void copy_to_device(void* to, const void* from, size_t bytes, StreamId stream) = 0;
};

}  // namespace millrace::device
