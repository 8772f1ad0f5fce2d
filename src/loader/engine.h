// Engine: the consumer's side of a loader and its worker threads, in the process that made it.
//
//   submit() -> EpochKeys -> ordered::Queue -> RowWorkers, one per thread -> next(): fill skipped, hand out
//
// With no threads the consumer's own RowWorker makes the rows inside next(), through the same queue: the same
// code, hence the same bytes. The meaning of every call is DataLoader's (data_loader.h); there also the rule
// for forked children.
// Threads: the consumer's calls from one thread at a time, but submit() and end_epoch() also while another is
// in next(); stats(), snapshot() and set_limits() from any (their own locks), and close() from any at any
// moment.
// Ends: close() follows core/consumer_seat.h: next() and start_epoch() sit. It empties the queue; workers
// stop after their row, and a consumer inside next() leaves after its row, with Error(unavailable). Then it
// joins the workers, and drops the batch that the consumer was working on. The destructor does the same.
// Leases that users hold live on by themselves.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/consumer_seat.h"
#include "core/thread_group.h"
#include "loader/batch_task.h"
#include "loader/data_loader.h"
#include "loader/epoch_keys.h"
#include "loader/backfill.h"
#include "loader/row_source.h"
#include "loader/row_worker.h"
#include "ordered/queue.h"
#include "trace/stage_clock.h"

namespace millrace::loader {

class Engine {
 public:
  Engine(RowSource source, const LoaderOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void start_epoch(uint64_t seed, uint64_t epoch);
  void submit(std::vector<int64_t> indices, BatchMix mix = {}, size_t form = 0);
  void skip(std::span<const int64_t> indices);
  void end_epoch();
  DataLoader::Status next(Batch& out, int timeout_ms);
  void close();
  LoaderStats stats() const;
  LoaderSnapshot snapshot() const;
  void set_limits(int active_threads, int slots) { queue_->set_limits(active_threads, slots); }
  std::vector<trace::StageReading> clocks() const;  // of its threads
  // A garbage collection inside a Python decoder can end a loader on one of its own threads: then close()
  // only stops the work, and the destructor must run on another thread.
  bool on_own_thread() const { return threads_.holds_current(); }

 private:
  void run(int number);
  const std::optional<transforms::OutputShape>& shape_of(size_t form) const {
    return source_.forms.empty() || source_.ragged ? source_.fixed_shape : source_.forms[form];
  }
  bool find_oldest(int64_t deadline_ns);
  bool settle(int64_t deadline_ns);
  void finish_asides();
  void remake_if_shape_changed(BatchTask& task);
  void list_skipped();
  void record_failures();
  void hand_over(BatchTask& task, Batch& out);
  size_t hand_over_rows(BatchTask& task, Batch& out);
  size_t hand_over_ragged(BatchTask& task, Batch& out);

  const RowSource source_;
  const LoaderOptions options_;
  const std::shared_ptr<ordered::Queue> queue_;

  core::ConsumerSeat seat_;

  // The consumer's.
  EpochKeys keys_;
  RowWorker consumer_;            // makes rows when there are no threads, and fillers
  std::shared_ptr<Epoch> epoch_;  // shared with its batches
  std::atomic<int64_t> next_id_ = 0;
  enum class Phase : uint8_t { idle, open, ended, closed };
  std::atomic<Phase> phase_ = Phase::idle;
  ordered::Claim claim_;  // of the consumer as the only worker
  RowFailure failure_;
  std::shared_ptr<BatchTask> current_;  // complete, on its way to be handed out
  std::optional<Backfill> filler_;      // of current_, under `skip`
  std::vector<SkippedRow> skipped_;     // of current_, under `leave`

  mutable std::mutex stats_mutex_;  // guards counted_
  LoaderStats counted_;             // without the stages' times, which the workers count
  SampleError last_error_;          // the sample left out last

  std::vector<std::unique_ptr<RowWorker>> workers_;  // fixed before the first thread starts, as are these
  std::vector<std::shared_ptr<trace::StageClock>> clocks_;  // by worker
  core::ThreadGroup threads_;  // the last member: joined before anything they use goes
};

}  // namespace millrace::loader
