// Samplers: what every order is, ranks that share it, and arguments that are refused. That the orders are
// Python's shows tests/python/test_cpp_states.py.
#include "millrace/samplers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "errors_of.h"
#include "millrace/loader.h"
#include "own_samples.h"

namespace millrace {
namespace {

std::vector<int64_t> range(int64_t n) {
  std::vector<int64_t> numbers(static_cast<size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::vector<int64_t> sorted(std::vector<int64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// A rank's indices of `epochs` epochs, by a loader.
std::vector<std::vector<int64_t>> read(const Sampler& sampler, int epochs, int64_t samples) {
  Loader loader(make_dataset(Numbered{.samples = samples}), {.batch_size = 3, .sampler = sampler});
  std::vector<std::vector<int64_t>> result(static_cast<size_t>(epochs));
  for (auto& indices : result)
    for (const Batch& batch : loader)
      indices.insert(indices.end(), batch.indices().begin(), batch.indices().end());
  return result;
}

TEST(Samplers, EachOrderIsAPermutationByEpoch) {
  const std::vector<int64_t> all = range(23);
  for (const Sampler& sampler :
       {distributed_sampler(23, {}, 3), permutation_sampler(23, 5), shard_shuffle({5, 0, 11, 7}, 2),
        two_tier_shuffle({5, 0, 11, 7}, 4, 2), shuffle_buffer(23, 6, 1)}) {
    EXPECT_EQ(sampler.size(), 23);
    EXPECT_EQ(sorted(sampler.at(0, all)), all);
    EXPECT_NE(sampler.at(0, all), sampler.at(1, all));
    const auto epochs = read(sampler, 2, 23);
    EXPECT_EQ(epochs[0], sampler.at(0, all));
    EXPECT_EQ(epochs[1], sampler.at(1, all));
  }
  EXPECT_EQ(sequential_sampler(23).at(7, all), all);
  EXPECT_EQ(distributed_sampler(23, {}, 3, false).at(7, all), all);
}

TEST(Samplers, RanksShareTheOrder) {
  for (const bool drop_last : {false, true}) {
    std::vector<std::vector<int64_t>> parts;
    for (int rank = 0; rank < 3; ++rank) {
      const Sampler sampler = permutation_sampler(23, 5, {rank, 3, drop_last});
      EXPECT_EQ(sampler.size(), drop_last ? 7 : 8);
      parts.push_back(read(sampler, 1, 23)[0]);
    }
    const std::vector<int64_t> order = permutation_sampler(23, 5).at(0, range(23));
    for (size_t step = 0; step < parts[0].size(); ++step)
      for (size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(parts[rank][step], order[(3 * step + rank) % 23]);
  }
}

TEST(Samplers, WeightsDecideHowOftenAnIndexComes) {
  const Sampler sampler = weighted_sampler({0, 1, 3}, 4000, true, 1);
  std::map<int64_t, int> counts;
  for (const int64_t index : sampler.at(0, range(4000))) ++counts[index];
  EXPECT_EQ(counts[0], 0);
  EXPECT_NEAR(counts[2], 3000, 150);
  EXPECT_EQ(sorted(weighted_sampler({0, 1, 3, 2}, 3, false, 1).at(2, range(3))),
            (std::vector<int64_t>{1, 2, 3}));
}

TEST(Samplers, StratifiedBatchesHaveEachClassAlike) {
  std::vector<int64_t> labels(100, 4);
  for (size_t i = 0; i < 10; ++i) labels[i] = -2;
  Loader loader(make_dataset(Numbered{.samples = 100}), {.batch_sampler = stratified_batches(labels, 10)});
  EXPECT_EQ(loader.size(), 10);
  for (const Batch& batch : loader) {
    const auto rare =
        std::count_if(batch.indices().begin(), batch.indices().end(), [](int64_t i) { return i < 10; });
    EXPECT_GE(rare, 4);
    EXPECT_LE(rare, 6);
  }
}

TEST(Samplers, WeightsFromLabels) {
  const std::vector<int64_t> labels{5, 5, 5, 5, -1};
  EXPECT_EQ(weights_from_labels(labels), (std::vector<double>{0.25, 0.25, 0.25, 0.25, 1}));
  EXPECT_EQ(weights_from_labels(labels, ClassWeights::sqrt)[0], 0.5);
  EXPECT_NEAR(weights_from_labels(labels, ClassWeights::effective, 0.5)[0], 0.5 / (1 - 0.0625), 1e-12);
  EXPECT_EQ(weights_from_labels(labels, ClassWeights::effective, 0)[4], 1);
}

TEST(SamplerErrors, NameTheArgument) {
  const auto kind = [](const std::function<void()>& call, const std::string& says) {
    EXPECT_EQ(kind_of(call, says), ErrorKind::invalid_argument);
  };
  kind([] { sequential_sampler(-1); }, "n=-1");
  kind([] { random_sampler(-1); }, "n=-1");
  kind([] { permutation_sampler(int64_t{1} << 62 | 1); }, "2**62");
  kind([] { distributed_sampler(3, {2, 2}); }, "Invalid rank 2");
  kind([] { permutation_sampler(3, 0, {-1, 2}); }, "Invalid rank -1");
  kind([] { weighted_sampler({1, -1}, 1); }, "weights[1]");
  kind([] { weighted_sampler({0, 0}, 1); }, "above 0");
  kind([] { weighted_sampler({1, 1}, 0); }, "num_samples");
  kind([] { weighted_sampler({1, 0}, 2, false); }, "without replacement");
  kind([] { shard_shuffle({}); }, "one at least");
  kind([] { shard_shuffle({3, -1}); }, "shard_lengths[1]");
  kind([] { two_tier_shuffle({3}, 0); }, "buffer_size=0");
  kind([] { batches_of(sequential_sampler(3), 0); }, "batch_size=0");
  kind([] { batches_of(Sampler{}, 2); }, "empty");
  kind([] { stratified_batches({}, 2); }, "labels");
  kind([] { weights_from_labels({}); }, "labels");
  const std::vector<int64_t> one{0};
  kind([&] { weights_from_labels(one, ClassWeights::effective, 1); }, "beta");
  kind([&] { random_sampler(3).at(0, one); }, "random_sampler()");
  kind([] { Sampler{}.size(); }, "empty");
  kind([] { BatchSampler{}.size(); }, "empty");
  EXPECT_EQ(kind_of([] { permutation_sampler(3).at(0, std::vector<int64_t>{3}); }), ErrorKind::out_of_range);
}

}  // namespace
}  // namespace millrace
