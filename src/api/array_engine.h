// ArrayEngine: an Engine over collate::GatherEngine, for rows that lie in memory or in mapped files.
//
// Invariant: pending_ has an entry for each batch that is out, in order; those with an entry in `large` have
// a batch in the gather engine, in the same order. pending_ is the consumer's; close() from another thread
// touches the gather engine alone, which allows that. A file that was cut short is the error of its batch.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "api/array_dataset.h"
#include "api/batch_fields.h"
#include "api/engine.h"
#include "collate/gather_engine.h"
#include "trace/stage_times.h"

namespace millrace::api {

class ArrayEngine final : public Engine {
 public:
  ArrayEngine(std::shared_ptr<const ArrayDataset> dataset, const EngineOptions& options);

  void start_epoch(uint64_t seed, uint64_t epoch) override;
  void skip(std::span<const int64_t>) override {}  // a row is the same whenever it comes
  bool submit(std::vector<int64_t> indices) override;
  void end_epoch() override {}
  Status next(Made& out, int timeout_ms) override;
  void set_limits(int threads, int slots) override { engine_.set_limits(threads, slots); }
  void close() override { engine_.close(); }
  LoaderStats stats() const override;

 private:
  struct Pending {
    std::vector<int64_t> indices;
    std::vector<Field> fields;  // as far as they are made
    std::vector<size_t> large;  // those that the gather engine makes
    std::exception_ptr error;   // of a batch that could not be begun
  };
  void begin(Pending& batch);

  const std::shared_ptr<const ArrayDataset> dataset_;  // keeps the memory
  const BatchMemory memory_;
  const bool has_source_;  // batches lie in memory of the program's choice
  const int threads_;
  std::deque<Pending> pending_;
  trace::StageTimes copied_;  // in submit()
  std::atomic<int64_t> samples_{0}, batches_{0}, bytes_{0}, wait_ns_{0};
  collate::GatherEngine engine_;
};

}  // namespace millrace::api
