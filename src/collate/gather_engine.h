// GatherEngine: copies the rows of submitted batches into slots, by threads ahead of the consumer, and hands
// batches out in order.
//
//   submit(row addresses) -> pieces of a field's rows, claimed in order -> slots, one ring per field ->
//   next()
//
// Without threads, next() copies in the calling thread: the same pieces, hence the same bytes.
//
// Invariants, all under one lock:
//  - The outstanding batches are in a queue, in the order of submit(); pieces are claimed in the order of
//    (batch, piece). Batches before the first one with an unclaimed piece are wholly claimed, batches behind
//    it untouched.
//  - A batch has the slots of all its fields before its first piece is claimed, hence at most `slots` batches
//    hold memory, what the user keeps included. Slots are taken in order, and a batch keeps those that it has
//    while it waits for the others.
//  - If slots are missing when the consumer waits for the oldest batch, they are with the user (or with
//    batches just thrown away that a thread still writes to): the batch gets overflow slots. So it never
//    waits for ever.
// A piece is written without the lock, by the one thread that claimed it; the thread then counts it off under
// the lock. The consumer sees the count at zero under the same lock, so it sees everything that was written.
// Waking: a thread sleeps when nothing can be claimed. All are woken when that may have changed: a batch was
// submitted, a slot came back, or the oldest batch got overflow slots. The consumer is woken when a batch is
// complete.
// The gate: threads with a number below `active` claim, the others sleep apart; set_limits() wakes all of
// them, so each looks anew. At least one is active, so a batch is always finished.
// Leases are never dropped under the lock: dropping one calls back into slot_returned().
//
// Who: submit(), next() and discard_all() belong to one thread at a time, the consumer's; close() may come
// from any, at any moment. Rows that were submitted must stay where they are until their batch is handed out
// or close() has returned.
// Ends: close() follows core/consumer_seat.h. It marks and wakes; each thread finishes its piece
// (RowCopy::piece_bytes) and so does a consumer that copies itself, one that waits comes out with
// Error(unavailable), as does every submit() from then on, while next() answers `end`; then the threads are
// joined, and only then the queue is emptied.
// In a forked child every call but the destructor throws Error(unavailable); the destructor does nothing
// there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collate/row_gather.h"
#include "core/batch_ring.h"
#include "trace/stage_clock.h"

namespace millrace::collate {

class GatherEngine {
 public:
  enum class Status : uint8_t { ready, pending, end };

  // Throws Error(invalid_argument) for fewer than one slot, Error(system) when the system has no thread left.
  GatherEngine(int threads, int slots, size_t fields, const core::BlockSource& memory = {});
  ~GatherEngine();
  GatherEngine(const GatherEngine&) = delete;
  GatherEngine& operator=(const GatherEngine&) = delete;

  // One batch: at most one RowCopy per field, with at least one row. Throws Error(invalid_argument) without
  // any row.
  void submit(std::vector<RowCopy> copies);
  // The next batch, a lease of rows x row_bytes per RowCopy, in their order. Waits (or works) for about
  // `timeout_ms`, then answers `pending`. `end`: nothing is outstanding. Throws Error(system) when there was
  // no memory for the batch, and what a RowMaker throws; the batch is then gone.
  Status next(std::vector<core::Lease>& out, int timeout_ms);
  void discard_all();
  void close();

  // Any thread. How many threads claim pieces, and how many batches may be in memory, from now on; at least 1
  // each.
  void set_limits(int active_threads, int slots);
  int slots() const;
  int64_t overflow_count() const;
  int64_t copy_ns() const;                          // spent copying, summed over the threads
  std::vector<trace::StageReading> clocks() const;  // of the threads; none in a forked child

 private:
  struct Task;
  struct State;
  struct Running;
  Running& running() const;

  const uint64_t generation_;
  std::unique_ptr<Running> running_;
};

}  // namespace millrace::collate
