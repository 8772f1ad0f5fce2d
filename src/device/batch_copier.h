// BatchCopier: brings batches to a device on a stream of its own, while the consumer's stream computes.
//
//   copy() ... copy()  ->  seal(): a Ticket  ->  hand_out(): the consumer's stream waits for it
//
// Four guards make this correct; for each guard, a test leaves its call out (tests/cpp/device):
//   1. the consumer's stream waits for the ticket's event, so it reads no data before they have arrived;
//   2. memory is marked as used on the consumer's stream, so that freeing it early does not let the next copy
//      write into it;
//   3. the keeper of host memory is released only when the copy out of that memory is done;
//   4. staging memory is written again only when the copy out of it is done.
// Invariant: a host block's keeper lives in `open_` until its seal(), then in one entry of `under_way_` until
// the event of that entry is done. Entries are in the order of the stream, so the first that is not done ends
// the search.
// Cost: one allocation and one copy for each block, but small blocks that are not page-locked share both.
// Blocks that are not page-locked are copied to a staging buffer first. In the steady state nothing is
// allocated on the host.
// Bound: the copies that are not done yet.
// One thread at a time.
// Ends: close() and the destructor wait for the copies under way. After a failure of the device there is
// nothing left to wait for; only close() reports it as an error.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "device/device.h"

namespace millrace::device {

// Bytes on the host, and the object that keeps them unchanged. `page_locked`: copied without staging.
struct HostBlock {
  const void* data = nullptr;
  size_t bytes = 0;
  std::shared_ptr<const void> keeper;
  bool page_locked = false;
};

// Bytes on the device; small ones may share their memory.
struct DeviceBlock {
  std::shared_ptr<DeviceMemory> memory;
  size_t offset = 0;
  void* data() const { return static_cast<uint8_t*>(memory->data()) + offset; }
};

class BatchCopier {
 public:
  explicit BatchCopier(std::shared_ptr<Device> device);
  ~BatchCopier();
  BatchCopier(const BatchCopier&) = delete;
  BatchCopier& operator=(const BatchCopier&) = delete;

  StreamId stream() const { return stream_; }

  // Queues copies of all blocks; the result has one entry for each, usable on stream() at once. Blocks that
  // are not page-locked are read before this returns. If there is not enough memory, nothing is queued.
  std::vector<DeviceBlock> copy(std::span<const HostBlock> blocks);

  // Keeps `keeper` until the work queued on stream() before the next seal() is done: for work there that is
  // not the copier's own.
  void keep(std::shared_ptr<const void> keeper) { open_.keepers.push_back(std::move(keeper)); }

  // The moment when all work queued so far on a stream is done; seal() makes one for stream().
  class Ticket {
   public:
    Ticket() = default;
    explicit operator bool() const { return event_ != nullptr; }

   private:
    friend class BatchCopier;
    std::shared_ptr<DeviceEvent> event_;
  };
  Ticket seal();
  // record() returns a ticket for all work queued on `stream` so far, by any code; wait_for() waits for it.
  Ticket record(StreamId stream);
  void wait_for(const Ticket& ticket) { device_->synchronize(*ticket.event_); }

  // Lets `consumer` use blocks copied before the ticket; marks them as used on that stream.
  void hand_out(const Ticket& ticket, std::span<const DeviceBlock> blocks, StreamId consumer);

  // Blocks the calling thread until the ticket's moment.
  void wait(const Ticket& ticket) { device_->synchronize(*ticket.event_); }

  // Releases keepers and staging memory of finished copies; copy() and seal() do so, too.
  void reap();
  void close();
  size_t under_way() const { return under_way_.size(); }

 private:
  struct Staging {
    std::unique_ptr<HostMemory> memory;
    size_t bytes = 0;
  };
  struct Held {  // by the copies of one seal()
    std::shared_ptr<DeviceEvent> event;
    std::vector<std::shared_ptr<const void>> keepers;
    std::vector<Staging> staging;
  };

  Staging take_staging(size_t bytes);
  void let_go(Held& held);

  const std::shared_ptr<Device> device_;
  const StreamId stream_;
  Held open_;
  std::deque<Held> under_way_;
  std::vector<Staging> free_staging_;                 // nothing reads it any more
  std::vector<std::shared_ptr<DeviceEvent>> events_;  // all; used again when no ticket or copy holds them
};

}  // namespace millrace::device
