// What the engine costs beside the work: slots, hand-over, and per row, in nanoseconds.
//
//   ring_bench [rounds]
//
// Cases run in turn, round after round, so that all share the machine's good and bad moments; printed are the
// lowest and the median.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/clock.h"
#include "core/batch_ring.h"
#include "core/slot_memory.h"
#include "loader/data_loader.h"
#include "loader/row_source.h"

namespace {

using namespace millrace;

constexpr size_t kBatchBytes = 128 * 3 * 224 * 224 * sizeof(float);  // 77 MB

struct Case {
  std::string name;
  std::function<double()> nanoseconds;  // per unit of the name
  std::vector<double> results;
};

// Rows that cost nothing, so that what is left is the engine.
class NoWork final : public loader::RowMaker {
 public:
  explicit NoWork(transforms::OutputShape shape) : shape_(shape) {}
  transforms::OutputShape prepare(const base::SampleKey&, size_t /*form*/) override { return shape_; }
  void finish(const loader::RowMemory&) override {}

 private:
  transforms::OutputShape shape_;
};

double per_row(int threads, int64_t batch_size) {
  constexpr int64_t kRows = 1 << 17;
  // Just large enough for the batch to travel in a slot.
  const transforms::OutputShape shape{
      1, 64, static_cast<int32_t>(core::kSmallFieldBytes / 64 / static_cast<size_t>(batch_size) + 1)};
  const std::vector<int64_t> labels(kRows);
  loader::RowSource source;
  source.size = kRows;
  source.type = base::DType::u8;
  source.fixed_shape = shape;
  source.labels = labels;
  source.make_maker = [shape](trace::StageTimes*) { return std::make_unique<NoWork>(shape); };
  const auto loader = loader::make_loader(source, {threads, 3, loader::ErrorPolicy::raise, false});
  std::vector<int64_t> indices(static_cast<size_t>(batch_size));
  loader->start_epoch(1, 0);
  loader::Batch held, batch;
  const int64_t batches = kRows / batch_size;
  int64_t submitted = 0;
  const auto submit = [&] {
    if (submitted == batches) return;
    std::iota(indices.begin(), indices.end(), submitted++ * batch_size);
    loader->submit(indices);
  };
  const int64_t start = base::now_ns();
  for (int i = 0; i < 4; ++i) submit();
  for (int64_t taken = 0; taken < batches;) {
    if (loader->next(batch, 1000) != loader::DataLoader::Status::ready) continue;
    ++taken;
    held = std::move(batch);
    submit();
  }
  return static_cast<double>(base::now_ns() - start) / static_cast<double>(kRows);
}

double ring_round_trip(core::BatchRing& ring, bool overflow) {
  constexpr int kTimes = 20000;
  const int64_t start = base::now_ns();
  for (int i = 0; i < kTimes; ++i) {
    const core::Lease lease = overflow ? ring.acquire_overflow(core::kSmallFieldBytes)
                                       : std::move(*ring.try_acquire(core::kSmallFieldBytes));
    if (lease.data() == nullptr) std::abort();
  }
  return static_cast<double>(base::now_ns() - start) / kTimes;
}

double write_slot(bool warm) {
  if (!warm) core::empty_slot_cache();
  core::BatchRing ring(1);
  if (warm) std::memset(ring.try_acquire(kBatchBytes)->data(), 0, kBatchBytes);
  const auto lease = ring.try_acquire(kBatchBytes);
  const int64_t start = base::now_ns();
  std::memset(lease->data(), 1, kBatchBytes);
  return static_cast<double>(base::now_ns() - start) / (kBatchBytes >> 20);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  core::BatchRing ring(3);
  std::vector<Case> cases = {
      {"slot: take and give back", [&] { return ring_round_trip(ring, false); }, {}},
      {"overflow slot of 64 KB: take and give back", [&] { return ring_round_trip(ring, true); }, {}},
      {"write a 77 MB slot, first time, per MB", [] { return write_slot(false); }, {}},
      {"write a 77 MB slot, warm, per MB", [] { return write_slot(true); }, {}},
  };
  for (const int threads : {0, 1, 2})
    for (const int64_t batch_size : {1, 128})
      cases.push_back(
          {"row of batches of " + std::to_string(batch_size) + ", " + std::to_string(threads) + " threads",
           [threads, batch_size] { return per_row(threads, batch_size); },
           {}});
  for (int round = 0; round < rounds; ++round)
    for (Case& c : cases) c.results.push_back(c.nanoseconds());
  std::printf("%-48s %12s %12s\n", "nanoseconds for", "lowest", "median");
  for (Case& c : cases) {
    std::sort(c.results.begin(), c.results.end());
    std::printf("%-48s %12.0f %12.0f\n", c.name.c_str(), c.results.front(), c.results[c.results.size() / 2]);
  }
  return 0;
}
