// Device: the parts of an accelerator that bring batches to it: streams, events, memory, copies.
// Neutral types only.
//
// The rules are CUDA's. Work queued on one stream runs in order; different streams run in any order, except
// for waits on events. Calls return when the work is queued, not when it is done. Freed memory may go at once
// to a new allocation for the same stream, because work queued later there runs later. Every other stream
// that used the memory must have been named by used_on(). Implementations: tensors/torch_device.h, for every
// accelerator torch knows; a fake device in tests/cpp/device, with copies that come late. Any thread may
// call. Memory belongs to one thread at a time, and so does an event while it is recorded; any number of
// threads may wait for a recorded event.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace millrace::device {

using StreamId = int64_t;  // the device's own number of a stream

// A moment on a stream. It counts as done until it is recorded.
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

  // For copies; others may get the same stream after this object has ended.
  virtual StreamId new_stream() = 0;
  virtual StreamId current_stream() = 0;  // the stream of the calling thread's work
  // The stream's handle in the device's own libraries: a cudaStream_t.
  virtual void* native_stream(StreamId stream) = 0;

  virtual std::unique_ptr<DeviceEvent> new_event() = 0;
  // A second call moves the event to the later moment.
  virtual void record(DeviceEvent& event, StreamId stream) = 0;
  // Work queued on the stream from now on runs after the event.
  virtual void wait(StreamId stream, DeviceEvent& event) = 0;
  virtual bool is_done(DeviceEvent& event) = 0;
  // Blocks the calling thread, which must not hold Python's GIL.
  virtual void synchronize(DeviceEvent& event) = 0;

  // Throws Error(system, ENOMEM) when the device has too little memory left.
  virtual std::unique_ptr<DeviceMemory> allocate(size_t bytes, StreamId stream) = 0;
  virtual void used_on(DeviceMemory& memory, StreamId stream) = 0;
  virtual std::unique_ptr<HostMemory> allocate_host(size_t bytes) = 0;

  // `from` must not change until the copy is done; the caller ensures that with an event.
  virtual void copy_to_device(void* to, const void* from, size_t bytes, StreamId stream) = 0;
};

}  // namespace millrace::device
