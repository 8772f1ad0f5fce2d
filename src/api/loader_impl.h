// Loader::Impl: epochs over an engine: index lists go to it, batches come back, and any thread may ask for
// the run's place at any moment.
//
//   begin_epoch(): generator ─▶ base seed ─▶ cursor ─▶ engine.submit() ... engine.next() ─▶ deliver() ─▶ the
//   program
//
// The draws from the generator, and their moments, are those of Python's iterators: the base seed when an
// epoch begins, then what the sampler draws; `prefetch` x threads index lists at once, one more after each
// batch; without threads one before each batch; all of them under OnError::skip, which takes samples from the
// epoch's end.
//
// Locks, in this order:
//  - seat_: held by the thread in next(), begin() or load_state(); others wait. It guards the consumer's
//  data.
//  - mutex_: held for moments, never while an engine works or a user's code runs. It guards what any thread
//  may ask for:
//    the place, the engine's address, whether it is closed.
// Ends: close() marks under mutex_, then closes the engine without any lock: a next() that waits comes out of
// it with Error(unavailable). close() inside a call of the same thread (from the read() of a dataset, without
// threads) marks only; see core/consumer_seat.h. The destructor closes, and waits until all calls of other
// threads are over: each is a Visit. In a forked child every call is refused before a lock is touched.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "api/dataset_impl.h"
#include "api/engine.h"
#include "api/index_cursor.h"
#include "api/saved_state.h"
#include "core/fork_guard.h"
#include "millrace/loader.h"

namespace millrace {

class MILLRACE_PRIVATE Loader::Impl {
 public:
  Impl(Dataset dataset, LoaderOptions options);
  ~Impl();

  bool is_of_this_process() const { return generation_ == core::fork_generation(); }

  int64_t size() const;
  // `iteration`: of the iterator that asks.
  bool next(Batch& out, std::optional<uint64_t> iteration = {});
  uint64_t begin();  // the number of the iteration that begins
  int64_t epoch() const;
  std::string state() const;
  void load_state(const std::string& text);
  void close();
  LoaderStats stats() const;
  void set_limits(int threads, int batches);

 private:
  enum class Phase : uint8_t { between, running };

  // A call, for which the destructor waits. Throws Error(unavailable) in a forked child.
  class Visit {
   public:
    explicit Visit(const Impl& of);
    ~Visit();

   private:
    const Impl& of_;
  };

  // While it lives, this thread is the consumer.
  class Seat {
   public:
    explicit Seat(Impl& of);
    ~Seat();

   private:
    Impl& of_;
    std::unique_lock<std::mutex> lock_;
  };

  [[noreturn]] void fail_closed() const;
  // Of all loaders: an iterator may look at one that was moved to where its own was.
  static uint64_t new_iteration();
  bool closed() const;

  // loader_impl.cpp; the consumer's
  void begin_epoch();
  void begin_epoch_at(api::RunState start, bool goes_on);
  void open_engine();
  bool submit_one();
  void submit_all();
  void draw_ahead();
  void deliver();
  int64_t left_out() const;
  void finish();
  bool next_of_epoch(Batch& out);

  // loader_states.cpp
  json::Value fingerprint() const;
  void check(const api::RunState& state) const;
  api::RunState run_state() const;  // under mutex_
  // The state that an epoch begins with: after `saved`, in its middle, or after the epoch before.
  api::RunState start_of(const std::optional<api::RunState>& saved);
  api::ReadFrom reading_from(const api::RunState& start);

  const uint64_t generation_ = core::fork_generation();
  const Dataset dataset_;
  const LoaderOptions options_;
  const BatchSampler sampler_;  // empty: the dataset is a stream
  const bool streams_;

  // The consumer's.
  std::mutex seat_;
  std::atomic<std::thread::id> who_{};  // sits; only that thread can find its own id here
  Phase phase_ = Phase::between;
  uint64_t iteration_ = 0, ended_iteration_ = 0;  // that next() is in; the last one with a complete epoch
  samplers::TorchGenerator rng_;
  std::optional<api::RunState> saved_;  // loaded: the next epoch begins there
  std::unique_ptr<api::IndexCursor> cursor_;
  int64_t left_out_before_ = 0;  // the part of the engine's count that is not of this epoch
  bool ended_ = false;           // the sampler, or the stream, has no more

  mutable std::mutex mutex_;  // guards everything below
  mutable std::condition_variable left_;
  mutable int visits_ = 0;
  std::shared_ptr<api::Engine> engine_;  // shared with a close() or stats() beside the consumer
  bool closed_ = false;
  int threads_, slots_;  // limits, as set last
  api::RunState now_;    // where the run is, but for now_.sampler,
  json::Value origin_;   // which is made of the place and this: see IndexReader
  bool begun_ = false;   // an epoch has begun
  std::string loaded_;   // the text of saved_, and the number of the epoch that it leads to
  int64_t loaded_number_ = 0;
};

}  // namespace millrace
