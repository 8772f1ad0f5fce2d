// DataLoader: batches of an ImageDataset in order, made by worker threads ahead of the consumer.
//
//   submit() index lists  ->  workers claim (batch, row) in order  ->  slots of the ring  ->  next() hands
//   batches out in order
//
// Threads claim single samples, in order, so the first batch is ready after one N-th of its cost and at most
// `slots` batches are in memory. threads == 0: nothing runs until next(), which then works in the calling
// thread.
// The consumer's side (start_epoch, submit, next) belongs to one thread at a time; stats() and close() may be
// called from any.
// Ends: close() or the destructor stop the workers after their current sample and join them; a next() that
// waits on another thread comes out with Error(unavailable) first, and from then on next() answers `end`. A
// FallbackDecoder that waits for a lock of the caller (Python's GIL) needs the caller to let go of it first.
// In a forked child the loader is refused with Error(unavailable); close() and the destructor do nothing
// there.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/batch_ring.h"
#include "loader/epoch_keys.h"
#include "loader/image_dataset.h"
#include "loader/mixture.h"
#include "millrace/error.h"
#include "ordered/queue.h"
#include "trace/activity.h"
#include "trace/stage_clock.h"

namespace millrace::loader {

enum class ErrorPolicy : uint8_t {
  raise,    // next() throws the first error of the batch, by row; the following batch can still be had
  skip,     // the hole is filled from the epoch's end; the epoch gets shorter (backfill.h has the rule)
  replace,  // the next readable index (i + 1 mod n) takes the row, as its occurrence 0
  leave,    // the row has anything in it and is listed in Batch::skipped; only where all rows have one shape
};
// Only samples that cannot be read are left out. Wrong indices, rows of different shapes
// (Error(shape_mismatch)), lack of memory or descriptors, and an epoch (`skip`) or dataset (`replace`) with
// nothing readable are thrown under every policy.

struct LoaderOptions {
  int threads = 1;
  int slots = 3;  // batches in memory, the one the consumer holds included
  ErrorPolicy on_error = ErrorPolicy::raise;
  bool drop_last = false;         // skip only: an incomplete last batch is not handed out
  core::BlockSource memory = {};  // of the slots; empty: the system's, kept warm
};

struct SampleError {
  int64_t index = 0;
  std::string path;
  int64_t offset = -1;
  std::string reason;
};

struct SkippedRow {
  int64_t row = 0;
  SampleError error;
};

// A row of a batch in which each row has its own shape; the row's parts lie one after another.
struct RaggedRow {
  size_t block = 0, offset = 0;                // where it begins: bytes in Batch::block()
  std::vector<transforms::OutputShape> parts;  // dense each; none: the row was left out
};

struct Batch {
  int64_t id = 0;
  int64_t rows = 0;
  transforms::OutputShape shape;               // of one row
  std::vector<transforms::OutputShape> parts;  // of one row, when it has several: part p is a block of
  int64_t block_rows = 0;                      // block_rows x its shape, of which the first `rows` count
  base::DType type = base::DType::f32;
  core::Lease images;                // rows x shape elements, dense
  std::vector<RaggedRow> ragged;     // instead of dense rows: one entry per row, of sources with ragged rows
  std::vector<core::Lease> further;  // the ragged rows' blocks after `images`
  std::vector<int64_t> labels;
  std::vector<SkippedRow> skipped;  // by row; `leave` only
  std::vector<RowKey> keys;  // which sample each row became in the end, and as which occurrence of its index

  core::Lease& block(size_t number) { return number == 0 ? images : further[number - 1]; }
  const core::Lease& block(size_t number) const { return number == 0 ? images : further[number - 1]; }
};

// Further errors are only counted: those of a largely unreadable data set would fill the memory, epoch by
// epoch.
inline constexpr size_t kMostErrors = 1000;

struct LoaderStats {
  int64_t samples = 0, batches = 0, bytes = 0;
  double read_seconds = 0, decode_seconds = 0, transform_seconds = 0,
         collate_seconds = 0;  // sums over the workers
  double wait_seconds = 0;     // the consumer waited for a batch, or worked on it (threads == 0)
  int slots = 0;
  int64_t overflow_slots = 0;
  int64_t left_out = 0;             // samples; none under `raise`
  std::vector<SampleError> errors;  // the first kMostErrors of them, in the order of their rows
};

// What a loader is doing at this moment.
struct LoaderSnapshot : ordered::Snapshot {
  struct Thread {
    trace::Doing doing = trace::Doing::nothing;
    int64_t index = -1;
    double seconds = 0, sample_seconds = 0;  // in this step, and with this sample
  };
  std::vector<Thread> threads;  // the workers, then the consumer
};

class DataLoader {
 public:
  enum class Status : uint8_t { ready, pending, end };

  static std::unique_ptr<DataLoader> create(std::shared_ptr<const ImageDataset> dataset,
                                            const LoaderOptions& options);
  virtual ~DataLoader() = default;

  // Drops the outstanding batches and begins an epoch; batch ids and occurrences start from 0 again.
  virtual void start_epoch(uint64_t seed, uint64_t epoch) = 0;
  // One batch's indices (root dataset); negative ones count from the end. One outside [-n, n) is that row's
  // Error(out_of_range).
  // `mix`: how its rows are mixed with each other; only under `raise`, with one view, f32, of three channels
  // and fixed shape, else Error(invalid_argument).
  // `form`: of its rows, of a dataset that has forms; Error(invalid_argument) when it has none such.
  virtual void submit(std::vector<int64_t> indices, BatchMix mix = {}, size_t form = 0) = 0;
  // Counts the indices that came before, when an epoch begins in its middle, for the occurrence numbers of
  // later ones.
  virtual void skip(std::span<const int64_t> indices) = 0;
  // No further submit() in this epoch. Under `skip`, batches are handed out only after this (the tail must be
  // known).
  virtual void end_epoch() = 0;

  // The next batch in order: waits (or works, threads == 0) for about `timeout_ms`, then answers `pending`,
  // so that the caller can look at signals. `end`: all submitted batches are handed out and end_epoch() was
  // called, or nothing is outstanding. Throws the batch's Error; the batch counts as handed out.
  virtual Status next(Batch& out, int timeout_ms) = 0;

  // How many of the threads claim samples, and how many batches may be in memory, from now on; at least 1
  // each. Any thread, at any time: batches and their order do not depend on it.
  virtual void set_limits(int active_threads, int slots) = 0;
  virtual void close() = 0;
  virtual LoaderStats stats() const = 0;
  virtual LoaderSnapshot snapshot() const = 0;                  // any thread; waits for no sample
  virtual std::vector<trace::StageReading> clocks() const = 0;  // where the time of each of its threads went
};

}  // namespace millrace::loader
