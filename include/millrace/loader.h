// Loader: batches of a Dataset in order, made by worker threads ahead of the loop.
//
//   millrace::Loader loader(photos, {.batch_size = 128, .shuffle = true, .threads = 8, .seed = 1});
//   for (int epoch = 0; epoch < 90; ++epoch)
//     for (const millrace::Batch& batch : loader) step(batch["image"], batch["label"]);
//
// Each begin() starts the next epoch, or goes on where load_state() said. Which samples come, in which order
// and with which random decisions depends on seed and epoch alone, never on the number of threads, and is
// that of Python's DataLoader with generator=torch.Generator().manual_seed(seed).
//
// Memory: at most `prefetch` x threads + 1 batches, and what the program keeps; without threads one.
// Threads: one at a time in next() and begin(); close(), stats() and state() from any; a second thread in
// next() waits for the first.
// Ends: close() or the destructor stop the threads after the sample in their hands. The destructor also waits
// until other threads have left their calls; next() throws Error(unavailable) there. A forked child is
// refused with Error(unavailable). Nothing here calls terminate(): errors are millrace::Error, thrown in the
// place of their batch; the following batch can still be had.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/batch.h"
#include "millrace/dataset.h"
#include "millrace/error.h"
#include "millrace/export.h"
#include "millrace/samplers.h"
#include "millrace/state.h"

namespace millrace {

// Samples that cannot be read (Error(corrupt_data), not_found, ...). Wrong indices, rows of different shapes
// and lack of memory are thrown under every policy.
enum class OnError : uint8_t {
  raise,    // next() throws the first error of the batch
  skip,     // samples from the epoch's end take the places: batches stay full, the epoch gets shorter
  replace,  // the next readable index takes the place
};

// Where batches lie: memory of `bytes` or more that the owner keeps. Empty: the library's own, used again and
// again. torch.h has one for page-locked memory. What it throws is the error of a batch.
// Requires: memory that is aligned to 64 bytes; calls from any thread, several at once.
// Requires: an owner with a deleter that does not throw: that ends the program, as the language has it.
using MemorySource = std::function<std::pair<void*, std::shared_ptr<void>>(size_t bytes)>;

// Requires: 1 <= batch_size <= 2^62, for a stream <= 2^24; 0 <= threads <= 4096.
// Requires: prefetch >= 1, and prefetch x threads <= 2^20.
// Requires: at most one of shuffle, sampler and batch_sampler; batch_size and drop_last only without the
// last; none of them, nor equal_steps, for a stream.
struct LoaderOptions {
  int64_t batch_size = 1;  // samples
  bool shuffle = false;    // torch's RandomSampler
  bool drop_last = false;  // an epoch's last batch, where it is shorter
  int threads = 0;         // 0: next() works itself, in the calling thread
  int prefetch = 2;        // batches that are made ahead for each thread: torch's prefetch_factor
  uint64_t seed = 0;
  OnError on_error = OnError::raise;
  std::optional<Sampler> sampler{};
  std::optional<BatchSampler> batch_sampler{};
  MemorySource memory{};
  std::optional<EqualSteps> equal_steps{};  // size() is EqualSteps::steps then
};

// A sample that on_error left out.
struct LeftOut {
  int64_t index = 0;
  std::string path;  // empty: no file involved
  int64_t offset = -1;
  std::string reason;
};

struct LoaderStats {
  int64_t samples = 0, batches = 0;  // handed out
  int64_t bytes = 0;                 // read from files
  double read_seconds = 0, decode_seconds = 0, transform_seconds = 0,
         collate_seconds = 0;  // sums over the threads
  double wait_seconds = 0;     // the loop waited
  int64_t overflow_slots = 0;  // batches that found the ring full, because the program keeps others
  int64_t left_out = 0;
  std::vector<LeftOut> errors;  // the first 1,000 of them
};

class MILLRACE_API Loader {
 public:
  // Throws Error(invalid_argument) where what LoaderOptions require does not hold. No thread starts before
  // the first next() or begin().
  // Requires: a dataset.
  Loader(Dataset dataset, LoaderOptions options);
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;
  ~Loader();

  // Batches of an epoch; -1 for a stream.
  int64_t size() const;

  // The next batch; false after the epoch's last one. The call after that starts the next epoch. Throws the
  // batch's Error; Error(unavailable) once closed. The old content of `out` is let go of first, so `out` is
  // empty after false and after an error.
  bool next(Batch& out);

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = const Batch*;
    using reference = const Batch&;
    Iterator() = default;
    const Batch& operator*() const { return batch_; }
    const Batch* operator->() const { return &batch_; }
    Iterator& operator++() {
      if (loader_ && !loader_->next_of(iteration_, batch_)) loader_ = nullptr;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const { return loader_ == other.loader_; }

   private:
    friend class Loader;
    Iterator(Loader* loader, uint64_t iteration) : loader_(loader), iteration_(iteration) { ++*this; }
    Loader* loader_ = nullptr;
    uint64_t iteration_ = 0;
    Batch batch_;
  };
  // Starts an epoch: one that was broken off is left, unless load_state() came since. A loader is in one
  // epoch at a time, so an older iterator, of a loop around this one say, throws Error(invalid_argument) at
  // its ++; it does so after load_state(), too.
  Iterator begin();
  Iterator end() { return {}; }

  // Of the epoch that next() is in, or begins next; from 0 on, and as loaded.
  int64_t epoch() const;

  // The state after the last batch that next() gave: Python's state_dict() of the same run, as JSON. Either
  // side resumes the other. See state.h.
  std::string state() const;
  // The next begin() or next() goes on there. Throws StateError where what it requires does not hold; the
  // loader is then where it was.
  // Requires: what state() or Python's state_dict() gave, unchanged, of a run over the same dataset in the
  // same order.
  void load_state(const std::string& json);

  // Ends the threads; any next() that waits throws Error(unavailable). Batches that were given stay. Twice is
  // once.
  void close();
  LoaderStats stats() const;  // since the loader was made
  // How many threads work, and how many batches all of them together make ahead, from now on. Batches do not
  // depend on it.
  // Requires: 1 <= threads <= 4096, 1 <= batches <= 2^20, else Error(invalid_argument).
  void set_limits(int threads, int batches);

  // Whether this is a child process that was forked since the loader was made. All other members but size(),
  // close() and the destructor throw Error(unavailable) there.
  bool forked() const noexcept;

 private:
  class Impl;
  bool next_of(uint64_t iteration, Batch& out);
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace
