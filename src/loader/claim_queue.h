// ClaimQueue: submitted batches in, single rows out to workers, complete batches out in order.
//
// Invariants, all under one lock:
//  - tasks_ holds the outstanding batches in order of id; rows are claimed in order of (batch, row). claim_
//    is the position of the first batch with an unclaimed row, so batches before it are wholly claimed and
//    batches behind it untouched.
//  - A batch gets its slot before its first row is claimed, hence at most `slots` batches hold memory, what
//    the user keeps included. Slots are asked for in order: the batch that the consumer waits for never
//    starves behind a later one.
//  - If no slot is free when the consumer waits for a batch that has none, all slots are with the user (or
//    with batches just thrown away that a worker still writes to): the batch gets an overflow slot.
// Waking: a worker sleeps when nothing can be claimed. Sleepers are woken when a batch becomes claimable: it
// was submitted, a slot came back, or the row in front of it was the last of its batch; so once per batch,
// never per row, and never more than it has rows. The consumer is woken once, when the batch it waits for is
// complete.
// The gate: of the workers, those with a number below active_ claim; the others sleep apart, on parked_, and
// are not among the sleepers. set_limits() wakes all of both, so each looks anew on which side it is: no
// waking-up is spent on a worker that must not claim, and a worker that is parked in the middle of a batch
// finishes the row in its hands. active_ is at least 1, so rows never wait for ever. What is claimed, and
// what is written, does not depend on who claims it.
// Shutdown: close() makes next_claim() return false everywhere, throws away what is outstanding and wakes
// everybody; a worker inside a row comes out after it. Any thread, beside any call: each looks anew at the
// queue behind every wait. Leases, and whatever an error may hold, are never dropped under the lock: dropping
// a lease calls back into slot_returned().
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/batch_ring.h"
#include "loader/batch_task.h"

namespace millrace::loader {

// The right, and the duty, to make one row.
struct Claim {
  std::shared_ptr<BatchTask> task;
  int64_t row = 0;
};

class ClaimQueue {
 public:
  // Shared: slots that come back after the queue's end must not find it gone (they hold a weak_ptr).
  static std::shared_ptr<ClaimQueue> create(int slots, core::BlockSource memory = {});

  // --- the consumer ---
  void push(std::shared_ptr<BatchTask> task);
  // The oldest batch when it is complete, removed; null when it is not by the deadline (now_ns()), or none is
  // outstanding.
  std::shared_ptr<BatchTask> pop_complete(int64_t deadline_ns);
  // Takes the last row off the last outstanding batch (which goes when it has none left) and returns its key.
  std::optional<RowKey> take_last_row();
  void discard_all();
  void close();
  bool empty() const;
  LoaderSnapshot snapshot() const;  // without threads
  // Any thread. At least 1 each.
  void set_limits(int active_workers, int slots);

  // --- workers, and the consumer when it works itself --- Settles the row in `claim`, if there is one, with
  // its failure, if there was any; then claims the next one.
  bool next_claim(Claim& claim, RowFailure& failure,
                  int worker = 0);  // sleeps until there is a row; false: closed
  bool next_claim_of_oldest(
      Claim& claim, RowFailure& failure);  // false: the oldest batch has no more rows, or there is no batch

  const core::BatchRing& ring() const { return *ring_; }

 private:
  ClaimQueue() = default;
  using Lock = std::unique_lock<std::mutex>;

  // Returns the batch if it was thrown away meanwhile, to be dropped without the lock.
  std::shared_ptr<BatchTask> settle(Claim& claim, RowFailure& failure);
  int complete_count() const;
  bool claimable();
  bool take_slot(BatchTask& task, bool overflow_allowed);
  void start_oldest();
  void take_row(Claim& claim);
  void fail_batch(size_t position);
  void slot_returned();
  void wake_workers(int64_t rows);

  std::unique_ptr<core::BatchRing> ring_;

  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable work_, parked_, complete_;
  std::deque<std::shared_ptr<BatchTask>> tasks_;
  size_t claim_ = 0;
  size_t last_bytes_ =
      0;  // of the last batch whose size was known: the guess for those whose shape only their rows tell
  int64_t sleeping_ = 0;
  int active_ = std::numeric_limits<int>::max();
  bool consumer_waits_ = false;
  bool closed_ = false;
};

}  // namespace millrace::loader
