// GatherEngine: copies the rows of submitted batches into slots, by threads ahead of the consumer, and hands
// batches out in order.
//
//   submit(row addresses) -> ordered::Queue of pieces of a field's rows, with a ring per field -> next()
//
// Without threads, next() copies in the calling thread: the same pieces, hence the same bytes.
// Threads: submit(), next() and discard_all() belong to one thread at a time, the consumer's; close() may
// come from any, at any moment. Rows that were submitted must stay where they are until their batch is handed
// out or close() has returned.
// Ends: close() follows core/consumer_seat.h. It empties the queue; each thread finishes its piece
// (RowCopy::piece_bytes), and so does a consumer that copies itself; one that waits comes out with
// Error(unavailable), as does every submit() from then on, while next() answers `end`; then the threads are
// joined. In a forked child every call but the destructor throws Error(unavailable); the destructor does
// nothing there.
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
  struct Running;
  Running& running() const;

  const uint64_t generation_;
  std::unique_ptr<Running> running_;
};

}  // namespace millrace::collate
