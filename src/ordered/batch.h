// Batch: the Queue's record of one batch on its way: its units, its slots, and the error of the batch as a
// whole.
//
// A source of units derives from it and adds the data to make its units from. Nothing is virtual: the queue
// only counts units, and the thread that claims one knows what to make.
// Life: pushed -> has its slots -> claimed unit by unit -> complete -> popped. Shared between the queue and
// the workers that hold a unit of it (the reason for shared_ptr): a batch that is thrown away stays writable
// until these workers let go.
// Threads: all members are under the queue's lock, but for `abandoned`; they are the consumer's alone before
// push() and from pop() on. A holder of a unit may use the leases, which stay as they are once a unit is
// claimed.
// Ends: with its last holder, never under the queue's lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "core/batch_ring.h"

namespace millrace::ordered {

// Memory for one field of a batch: the request to one of the queue's rings, and the lease that the ring gave.
struct Slot {
  size_t ring = 0;
  size_t rows = 0;
  std::optional<size_t> row_bytes;  // nothing: only rows will tell; it gets the bytes that the last batch had
  // Where rows vary, the bytes that they took. Written by holders of a unit, read when all are settled.
  size_t wanted = 0;
  core::Lease lease{};
};

struct Batch {
  explicit Batch(int64_t unit_count) : units(unit_count), unfinished(unit_count) {}
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  bool has_unclaimed() const { return claimed < units; }
  bool has_slots() const { return slots.empty() || slots.back().lease; }  // taken in order

  int64_t units;        // less what take_last() took off
  int64_t claimed = 0;  // units 0 .. claimed - 1 are made or in work
  int64_t unfinished;   // of `units`, and of units taken off while in work
  std::vector<Slot> slots;
  std::exception_ptr error;            // no memory for it, or of the first unit that failed: Claim::error
  std::atomic<bool> abandoned{false};  // nobody waits for it any more; relaxed: a hint to give up early

 protected:
  ~Batch() = default;  // by a shared_ptr that was made of the whole
};

// The right, and the duty, to make one unit.
struct Claim {
  std::shared_ptr<Batch> batch;
  int64_t unit = 0;
  std::exception_ptr error;  // what making it threw: the batch's, unless that has one already
};

}  // namespace millrace::ordered
