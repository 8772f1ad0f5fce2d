// Engine: makes the batches of a dataset; the interface that a Loader needs, and nothing else.
//
//   set_run_epoch() -> start_epoch() -> skip() -> submit() one index list after the other ... next() hands
//   batches out in order
//
// Threads: set_run_epoch(), start_epoch(), skip(), submit(), end_epoch(), next(), position() and go_on()
// belong to one thread at a time, the consumer's (Loader sees to that); close(), stats() and set_limits() may
// come from any thread, at any moment.
// Ends: close() wakes a next() that waits, which throws Error(unavailable) or answers `end`, and returns when
// no thread of the engine runs any more. The destructor closes.
// In a forked child the destructor leaves everything alone.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "core/batch_ring.h"
#include "json/json_value.h"
#include "millrace/batch.h"
#include "millrace/loader.h"

namespace millrace::api {

struct EngineOptions {
  int threads = 0;         // 0: next() works itself
  int slots = 3;           // batches in memory, the one that the program holds included
  int64_t batch_size = 0;  // of the lists that will come; 0: not known
  OnError on_error = OnError::raise;
  bool drop_last = false;  // under `skip`: a last batch that has become shorter is not handed out
  core::BlockSource memory{};
};

// A batch as an engine hands it out.
struct Made {
  std::vector<Field> fields;
  std::vector<int64_t> indices;  // which sample became each row
};

class Engine {
 public:
  enum class Status : uint8_t { ready, pending, end };

  virtual ~Engine() = default;

  // Drops the outstanding batches and begins an epoch.
  virtual void start_epoch(uint64_t seed, uint64_t epoch) = 0;
  // Call before start_epoch(): the epoch's number in the run (Loader::epoch()), for datasets that are
  // arranged anew in each epoch.
  virtual void set_run_epoch(int64_t /*number*/) {}
  // Counts the indices that came before, in an epoch that begins in its middle, for the occurrence numbers of
  // later ones.
  virtual void skip(std::span<const int64_t> indices) = 0;
  // Submits one batch. A wrong index is the error of its batch. A stream takes as many samples as `indices`
  // has entries, and ignores their values; false: the stream has ended, and nothing was submitted.
  virtual bool submit(std::vector<int64_t> indices) = 0;
  // No further submit() in this epoch. Under OnError::skip nothing is handed out before.
  virtual void end_epoch() = 0;

  // Waits, or works, for about `timeout_ms`. `end`: nothing is outstanding. Throws the batch's error: the
  // batch counts as handed out.
  virtual Status next(Made& out, int timeout_ms) = 0;

  virtual void set_limits(int threads, int slots) = 0;
  virtual void close() = 0;
  virtual LoaderStats stats() const = 0;

  // For streams: the dataset's position after the batch handed out last, with the keys of Python's
  // state_dict(): {"dataset_state": ..., "fetcher_state": ...}. go_on() returns to such a position, between
  // start_epoch() and the first submit().
  virtual json::Value position() const { return {}; }
  virtual void go_on(const json::Value&) {}
};

}  // namespace millrace::api
