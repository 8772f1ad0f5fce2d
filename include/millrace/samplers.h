// Samplers: in which order a Loader takes the samples of a dataset, and which of them a rank gets.
//
// All are functions of (seed, epoch), so any rank knows the global order, and a state is a position in it.
// Orders, names of states and draws are those of millrace.samplers in Python at the same arguments. A handle:
// copies share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "millrace/export.h"

namespace millrace {

// One rank's part: every `count`-th entry of the global order, from `rank` on. At the end of it the order
// goes on from its beginning until all ranks have as many, or, with drop_last, what does not divide is left
// out.
struct Ranks {
  int rank = 0, count = 1;
  bool drop_last = false;
};

class MILLRACE_API Sampler {
 public:
  class Impl;  // private
  Sampler() = default;
  explicit Sampler(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  int64_t size() const;  // indices of this rank in an epoch
  // Entries of the global order, all ranks together: out[i] is the index at positions[i]. Any thread. Throws
  // Error(out_of_range) for positions outside of it, Error(invalid_argument) for random_sampler(), whose
  // order is the loader's to draw.
  std::vector<int64_t> at(uint64_t epoch, std::span<const int64_t> positions) const;
  const std::shared_ptr<const Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

// All throw Error(invalid_argument) in the words of the Python samplers.

MILLRACE_API Sampler sequential_sampler(int64_t n);  // 0 .. n - 1: torch's SequentialSampler
// torch's RandomSampler, drawn from the loader's generator as torch draws it: what Loader's `shuffle` means.
MILLRACE_API Sampler random_sampler(int64_t n);
// torch's DistributedSampler: a permutation by (seed + epoch), as torch draws it; `shuffle` false: 0 .. n
// - 1.
MILLRACE_API Sampler distributed_sampler(int64_t n, Ranks ranks, uint64_t seed = 0, bool shuffle = true);
// A permutation that is computed, not stored: 10^9 samples start as fast as ten.
MILLRACE_API Sampler permutation_sampler(int64_t n, uint64_t seed = 0, Ranks ranks = {});
// `num_samples` draws of all ranks together, by weight (DistributedWeightedSampler).
MILLRACE_API Sampler weighted_sampler(std::vector<double> weights, int64_t num_samples,
                                      bool replacement = true, uint64_t seed = 0, Ranks ranks = {});
// Shards that lie one behind the other: in random order, each from its beginning to its end.
MILLRACE_API Sampler shard_shuffle(std::vector<int64_t> shard_lengths, uint64_t seed = 0, Ranks ranks = {});
// The same through a shuffle buffer (TwoTierShuffle).
MILLRACE_API Sampler two_tier_shuffle(std::vector<int64_t> shard_lengths, int64_t buffer_size,
                                      uint64_t seed = 0, Ranks ranks = {});
// 0 .. n - 1 through a shuffle buffer: two_tier_shuffle() of a single shard.
MILLRACE_API Sampler shuffle_buffer(int64_t n, int64_t buffer_size, uint64_t seed = 0, Ranks ranks = {});

// Lists of indices, each one batch.
class MILLRACE_API BatchSampler {
 public:
  class Impl;  // private
  BatchSampler() = default;
  explicit BatchSampler(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  int64_t size() const;  // batches of this rank in an epoch
  const std::shared_ptr<const Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

MILLRACE_API BatchSampler batches_of(Sampler sampler, int64_t batch_size, bool drop_last = false);
// balanced: every class alike, samples of small classes several times in an epoch; proportional: each sample
// once.
enum class ClassShares : uint8_t { balanced, proportional };
// Batches in which each class has its share (StratifiedBatchSampler).
MILLRACE_API BatchSampler stratified_batches(std::span<const int64_t> labels, int64_t batch_size,
                                             uint64_t seed = 0, Ranks ranks = {},
                                             ClassShares shares = ClassShares::balanced);

// 1 / n_c, 1 / sqrt(n_c), or (1 - beta) / (1 - beta^n_c) for each sample, of a class that comes n_c times.
enum class ClassWeights : uint8_t { inverse, sqrt, effective };
MILLRACE_API std::vector<double> weights_from_labels(std::span<const int64_t> labels,
                                                     ClassWeights mode = ClassWeights::inverse,
                                                     double beta = 0.9999);

}  // namespace millrace
