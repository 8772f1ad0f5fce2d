// BatchCopier: brings batches to a device on a stream of its own, while the consumer's stream computes.
//
//   copy() ... copy()  ->  seal(): a Ticket  ->  hand_out(): the consumer's stream waits for it
//
// Four guards make that right, and each of them is a call that a test leaves out (tests/cpp/device):
//   1. the consumer's stream waits for the ticket's event, so it does not read what has not arrived;
//   2. memory is named as used on the consumer's stream, so that freeing it early does not let the next copy
//      write into it;
//   3. what keeps the host's memory alive is let go only when the copy out of it is done;
//   4. staging memory is written again only when the copy out of it is done.
// Invariant: a host block's keeper lives in `open_` until its seal(), then in one entry of `under_way_` until
// the event of that entry is done. Entries are in the order of the stream, so the first that is not done ends
// the search.
// Cost: one allocation and one copy for each block, but small ones that are not page-locked share both; what
// is not page-locked is copied to a staging buffer first. In the steady state nothing is allocated on the
// host.
// Bound: what was copied and is not done yet.
// One thread at a time.
// Ends: close() or the destructor wait for the copies under way; that the device has failed, so that there is
// nothing left to wait for, is an error of close() alone.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "device/device.h"

namespace millrace::device {

// Bytes on the host, and what keeps them as they are. `page_locked`: can be copied from where they lie.
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

  // Queues copies of all blocks; the result has one entry for each, usable on stream() at once. What is not
  // page-locked is read before this returns. When there is no memory for it, nothing is queued.
  std::vector<DeviceBlock> copy(std::span<const HostBlock> blocks);

  // Keeps it until what is queued on stream() before the next seal() is done: for work there that is not the
  // copier's own.
  void keep(std::shared_ptr<const void> keeper) { open_.keepers.push_back(std::move(keeper)); }

  // A moment behind everything that was queued on stream() so far.
  class Ticket {
   public:
    Ticket() = default;
    explicit operator bool() const { return event_ != nullptr; }

   private:
    friend class BatchCopier;
    std::shared_ptr<DeviceEvent> event_;
  };
  Ticket seal();
  // A moment behind what was queued on `stream` so far, whosesoever it is; and: waits until it is reached.
  Ticket record(StreamId stream);
  void wait_for(const Ticket& ticket) { device_->synchronize(*ticket.event_); }

  // From now on `consumer` may use what was copied before the ticket; the blocks are marked as used there.
  void hand_out(const Ticket& ticket, std::span<const DeviceBlock> blocks, StreamId consumer);

  void wait(const Ticket& ticket) {
    device_->synchronize(*ticket.event_);
  }  // the calling thread, until that moment

  // Lets go of what finished copies needed; copy() and seal() do so, too.
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
  std::vector<std::shared_ptr<DeviceEvent>> events_;  // all; used again when nobody else holds them
};

}  // namespace millrace::device
