// Queue: batches in, single units out to workers, complete batches out in order.
//
//   push(batch) -> next(claim): its units, one to each caller -> next(claim) settles it -> pop(): the oldest
//
// A unit is what one worker makes at a time: a row, or a piece of a field.
//
// Invariants, all under one lock:
//  - batches_ holds the outstanding batches in order; units are claimed in the order of (batch, unit). claim_
//    is the position of the first batch with an unclaimed unit: batches before it are wholly claimed, batches
//    after it untouched.
//  - A batch has all its slots before its first unit is claimed. Slots are asked for in order, and a batch
//    keeps those that it has while it waits for others: a later one never starves the oldest.
//  - If slots are missing when the consumer waits for the oldest batch, they are with the user, or with
//    batches just thrown away that a worker still writes to: the batch gets overflow slots. So it never waits
//    for ever.
//  - A unit is made without the lock, by the thread that claimed it, and counted off under the lock. A thread
//    that sees the count at zero under the lock sees everything written to the batch.
//  - Leases, and what an error may hold, are never dropped under the lock: dropping a lease calls back into
//    slot_returned().
// Waking: a worker sleeps when nothing can be claimed. Sleepers are woken when a batch becomes claimable: it
// was pushed, a slot came back, or the unit in front of it was the last of its batch; so once per batch,
// never per unit, and never more of them than it has units. The consumer is woken once, when the batch it
// waits for is complete.
// Gate: workers with a number below active_ claim; the others sleep apart, on parked_, and no waking-up is
// spent on them. set_limits() wakes all of both, so each looks anew on which side it is. A worker that is
// parked in the middle of a batch finishes its unit. active_ is at least 1, so units never wait for ever. The
// order of claims and the data written do not depend on which worker claims.
// Threads: as said at the calls. Each looks anew at the queue after every wait.
// Bound: at most `slots` batches hold memory, what the user keeps included, but for overflow slots. How many
// are outstanding is up to the caller of push().
// Ends: with its last owner; slots may come back later, so rings hold a weak_ptr to the queue.
// Shutdown: close() makes next() return false everywhere, throws away all outstanding batches and
// wakes all threads; a worker inside a unit comes out after it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "core/batch_ring.h"
#include "ordered/batch.h"

namespace millrace::ordered {

struct Snapshot {
  int64_t outstanding = 0;  // batches that were pushed and not popped
  int64_t claimed = 0;      // of these, batches with all units made or in work
  int64_t complete = 0;     // and those that are ready
  int64_t unfinished = 0;   // units of the oldest batch
  int slots = 0, free_slots = 0;
};

class Queue {
 public:
  static std::shared_ptr<Queue> create(size_t rings, int slots, const core::BlockSource& memory = {});

  // --- the consumer, one thread at a time; push() also beside pop() ---
  // Throws Error(unavailable) once the queue is closed. The batch has at least one unit.
  void push(std::shared_ptr<Batch> batch);
  // The oldest batch when it is complete, removed; null when it is not by the deadline (now_ns()), or none is
  // outstanding.
  std::shared_ptr<Batch> pop(int64_t deadline_ns);
  // Takes the last unit off the last outstanding batch, which goes when it has none left. What it returns is
  // not to be settled, and has no batch when none is outstanding.
  Claim take_last();
  void discard_all();

  // --- any thread ---
  void close();
  bool empty() const;
  Snapshot snapshot() const;
  // How many workers claim units, and how many batches may be in memory, from now on; at least 1 each.
  void set_limits(int active_workers, int slots);
  int slots() const;
  int64_t overflow_count() const;

  // --- workers ---
  // Settles the unit in `claim`, if any, then claims the next: sleeps until there is one. False: closed.
  bool next(Claim& claim, int worker = 0);

  // --- the consumer, when it works itself ---
  // The same. False: the oldest batch has no more units, or there is no batch; then neither has the claim.
  bool next_of_oldest(Claim& claim);

 private:
  Queue() = default;
  using Lock = std::unique_lock<std::mutex>;
  using Batches = std::deque<std::shared_ptr<Batch>>;

  void abandon_all(Batches& gone);
  void settle(Claim& claim, Lock& lock);
  void keep_first_error(Claim& claim, Lock& lock);
  void let_go(Claim& claim, Lock& lock);
  int complete_count() const;
  void note_bytes(const Slot& slot);
  bool claimable();
  bool take_slots(Batch& batch, bool overflow_allowed);
  void start_oldest();
  void take_unit(Claim& claim);
  void slot_returned();
  void wake_workers(int64_t units);

  std::vector<std::unique_ptr<core::BatchRing>> rings_;  // fixed

  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable work_, parked_, complete_;
  Batches batches_;
  size_t claim_ = 0;
  std::vector<size_t> last_bytes_;  // by ring, of batches popped: the guess for those of unknown size
  int64_t sleeping_ = 0;
  int active_ = std::numeric_limits<int>::max();
  bool consumer_waits_ = false;
  bool closed_ = false;
};

}  // namespace millrace::ordered
