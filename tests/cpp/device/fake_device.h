// FakeDevice: a device in the host's memory that does everything as late, as slowly and in as odd an order as
// the rules allow.
//
// Streams are queues. Nothing runs until somebody looks (is_done, synchronize, finish) or, with `threads`,
// until the stream's own thread gets to it; which stream goes on is drawn from `seed`. A copy runs in two
// halves, and notices when its source has changed since it was queued. Freed memory is given at once to the
// next allocation of its size on the same stream, unless used_on() named others. So code that leaves out a
// wait, or uses memory again too early, shows it: by a changed source, or by what its kernels read.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "device/device.h"

namespace millrace::device {

class FakeDevice : public Device, public std::enable_shared_from_this<FakeDevice> {
 public:
  struct Options {
    uint32_t seed = 1;
    bool threads = false;  // one for each stream
    size_t memory_bytes = SIZE_MAX;
    size_t host_bytes = SIZE_MAX;  // what can be page-locked
  };
  explicit FakeDevice(Options options);
  ~FakeDevice() override;

  StreamId new_stream() override;
  StreamId current_stream() override { return current_; }
  void* native_stream(StreamId stream) override { return reinterpret_cast<void*>(stream); }
  std::unique_ptr<DeviceEvent> new_event() override;
  void record(DeviceEvent& event, StreamId stream) override;
  void wait(StreamId stream, DeviceEvent& event) override;
  bool is_done(DeviceEvent& event) override;
  void synchronize(DeviceEvent& event) override;
  std::unique_ptr<DeviceMemory> allocate(size_t bytes, StreamId stream) override;
  void used_on(DeviceMemory& memory, StreamId stream) override;
  std::unique_ptr<HostMemory> allocate_host(size_t bytes) override;
  void copy_to_device(void* to, const void* from, size_t bytes, StreamId stream) override;

  void set_current_stream(StreamId stream) { current_ = stream; }
  void launch(StreamId stream, std::function<void()> kernel);
  void finish();  // everything that was queued runs

  int64_t changed_sources() const {
    return changed_sources_;
  }  // copies that found other bytes than when they were queued
  int64_t allocations() const { return allocations_; }  // of memory that no earlier block could serve
  int64_t host_allocations() const { return host_allocations_; }
  int64_t copies() const { return copies_; }

 private:
  struct Moment;  // one recording of an event
  struct Event;
  struct Memory;
  struct Block;
  struct Host;
  struct Op {
    std::function<void()> work;
    std::shared_ptr<Moment> done;  // set when the op is reached
    std::shared_ptr<Moment> wait_for;
  };
  struct Stream {
    std::deque<Op> queue;
    bool running = false;  // its front is being worked on
    std::thread thread;
  };

  bool step(std::unique_lock<std::mutex>& lock);  // runs one op of some stream; false when none can run
  bool can_run(const Stream& stream) const;
  bool somebody_works() const;
  void run_front(Stream& stream, std::unique_lock<std::mutex>& lock);
  void work(Stream& stream);
  void some_steps(std::unique_lock<std::mutex>& lock);
  void push(StreamId stream, Op op);
  void free_block(std::unique_ptr<Block> block);

  const Options options_;
  std::atomic<StreamId> current_{0};
  std::atomic<int64_t> changed_sources_{0}, allocations_{0}, host_allocations_{0}, copies_{0};

  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  std::mt19937 random_;
  std::deque<Stream> streams_;  // 0: the default one
  std::map<std::pair<StreamId, size_t>, std::vector<std::unique_ptr<Block>>> free_;
  std::vector<std::vector<uint8_t>> host_graves_;
  size_t used_bytes_ = 0;
  std::atomic<size_t> host_bytes_{0};
  bool stop_ = false;
};

}  // namespace millrace::device
