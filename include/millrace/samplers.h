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
  // Error(out_of_range) for positions outside of it, Error(invalid_argument) for random_sampler() and
  // weighted_random_sampler(): the loader draws their order.
  std::vector<int64_t> at(uint64_t epoch, std::span<const int64_t> positions) const;
  const std::shared_ptr<const Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

// Each function throws Error(invalid_argument), in the words of the Python samplers, where what it requires
// does not hold. Seeds are the same on all ranks.
// Requires: n, num_samples, batch_size, buffer_size and the sum of lengths are at most 2^62.

// 0 .. n - 1: torch's SequentialSampler.
// Requires: n >= 0.
MILLRACE_API Sampler sequential_sampler(int64_t n);

// torch's RandomSampler, drawn from the loader's generator as torch draws it; random_sampler(n) is what
// Loader's `shuffle` means. `num_samples` indices in an epoch, n when not given: with replacement each of any
// of the n; without it, of permutations of all n, one after the other.
// Requires: n >= 0; num_samples >= 1, and n >= 1 then.
MILLRACE_API Sampler random_sampler(int64_t n, bool replacement = false,
                                    std::optional<int64_t> num_samples = {});

// torch's WeightedRandomSampler, drawn from the loader's generator as torch.multinomial() draws it (torch
// 2.11 and newer, on the CPU): index i as often as weights[i] says, several times only with replacement.
// Without it, weights of 0 come last, where too few others are left. All is drawn at the epoch's first index,
// 8 bytes for each of `num_samples` and 16 for each weight. More than 2^24 weights, which torch refuses, are
// drawn by an alias table, as millrace.samplers.WeightedRandomSampler does it.
// Requires: weights finite, 0 or more, and one above 0.
// Requires: num_samples >= 1; without replacement, at most as many as there are weights.
MILLRACE_API Sampler weighted_random_sampler(std::vector<double> weights, int64_t num_samples,
                                             bool replacement = true);

// torch's DistributedSampler: a permutation by (seed + epoch), as torch draws it, or all in their order where
// `shuffle` is false.
// Requires: n >= 0; 0 <= ranks.rank < ranks.count, here and below.
MILLRACE_API Sampler distributed_sampler(int64_t n, Ranks ranks, uint64_t seed = 0, bool shuffle = true);

// A permutation that is computed, not stored: 10^9 samples start as fast as ten.
// Requires: 0 <= n <= 2^62.
MILLRACE_API Sampler permutation_sampler(int64_t n, uint64_t seed = 0, Ranks ranks = {});

// `num_samples` draws of all ranks together, by weight (DistributedWeightedSampler).
// Requires: weights finite, 0 or more, and one above 0.
// Requires: num_samples >= 1; without replacement, at most as many as there are weights above 0.
MILLRACE_API Sampler weighted_sampler(std::vector<double> weights, int64_t num_samples,
                                      bool replacement = true, uint64_t seed = 0, Ranks ranks = {});

// Sources that lie one after the other, of `lengths` samples, in exact proportions (MixtureSampler): at
// every moment each has had its share, weights[i] of their sum, to less than one. A source is gone through in
// a new permutation at each of its passes, or in its own order with `shuffle` false. `num_samples` draws of
// all ranks together in an epoch, the sum of `lengths` when not given; samples that make the ranks' counts
// equal are drawn on, not repeated. States of Python with weights changed in the epoch, by set_weights(),
// are refused.
// Requires: lengths 0 or more, one at least; as many weights, finite, 0 or more, and not all 0.
// Requires: no weight above 0 of a source without samples; num_samples >= 1.
MILLRACE_API Sampler mixture_sampler(std::vector<int64_t> lengths, std::vector<double> weights,
                                     std::optional<int64_t> num_samples = {}, uint64_t seed = 0,
                                     bool shuffle = true, Ranks ranks = {});

// Shards that lie one after the other: in random order, each from its beginning to its end.
// Requires: shard_lengths 0 or more, one at least.
MILLRACE_API Sampler shard_shuffle(std::vector<int64_t> shard_lengths, uint64_t seed = 0, Ranks ranks = {});

// The same through a shuffle buffer (TwoTierShuffle).
// Requires: shard_lengths 0 or more, one at least; buffer_size >= 1.
MILLRACE_API Sampler two_tier_shuffle(std::vector<int64_t> shard_lengths, int64_t buffer_size,
                                      uint64_t seed = 0, Ranks ranks = {});

// 0 .. n - 1 through a shuffle buffer: two_tier_shuffle() of a single shard.
// Requires: n >= 0; buffer_size >= 1.
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

// `batch_size` indices of the sampler at a time; with drop_last without a last one that is shorter.
// Requires: a sampler; batch_size >= 1.
MILLRACE_API BatchSampler batches_of(Sampler sampler, int64_t batch_size, bool drop_last = false);
// balanced: every class alike, samples of small classes several times in an epoch; proportional: each sample
// once.
enum class ClassShares : uint8_t { balanced, proportional };
// Batches in which each class has its share (StratifiedBatchSampler); labels[i] is the class of sample i.
// Requires: one label at least; batch_size >= 1.
MILLRACE_API BatchSampler stratified_batches(std::span<const int64_t> labels, int64_t batch_size,
                                             uint64_t seed = 0, Ranks ranks = {},
                                             ClassShares shares = ClassShares::balanced);

// 1 / n_c, 1 / sqrt(n_c), or (1 - beta) / (1 - beta^n_c) for each sample, of a class that comes n_c times.
enum class ClassWeights : uint8_t { inverse, sqrt, effective };
// A weight for each label, for weighted_sampler() and weighted_random_sampler().
// Requires: one label at least; 0 <= beta < 1 for ClassWeights::effective.
MILLRACE_API std::vector<double> weights_from_labels(std::span<const int64_t> labels,
                                                     ClassWeights mode = ClassWeights::inverse,
                                                     double beta = 0.9999);

// As many batches in each epoch on every rank, where the ranks' samplers have different numbers of them:
// equal_steps= of Python's DataLoader. `steps` is what the ranks agreed on, by a collective call of the
// program's own over their BatchSampler::size(). The least of these leaves out what others have more
// (Python's "drop"). With the largest, a rank that has fewer gives batches again: its last one ("pad"), or
// its first ones ("repeat").
// Requires: the same steps on all ranks, 0 or more; a rank with no batch at all cannot give one again.
struct EqualSteps {
  enum class Again : uint8_t { last, first };
  int64_t steps = 0;
  Again again = Again::last;
};

}  // namespace millrace
