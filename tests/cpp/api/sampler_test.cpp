// Samplers: what every order is, ranks that share it, and arguments that are refused. That the orders are
// Python's shows tests/python/test_cpp_states.py.
#include "millrace/samplers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

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

TEST(Samplers, DrawFromTheLoadersGenerator) {
  const auto replaced = read(random_sampler(5, true, 40), 2, 5);
  EXPECT_EQ(replaced[0].size(), 40u);
  EXPECT_NE(replaced[0], replaced[1]);
  for (const int64_t index : replaced[0]) EXPECT_TRUE(index >= 0 && index < 5);
  const auto rounds = read(random_sampler(10, false, 25), 1, 10)[0];
  ASSERT_EQ(rounds.size(), 25u);
  EXPECT_EQ(sorted({rounds.begin(), rounds.begin() + 10}), range(10));
  EXPECT_EQ(sorted({rounds.begin() + 10, rounds.begin() + 20}), range(10));
  EXPECT_EQ(std::set<int64_t>(rounds.begin() + 20, rounds.end()).size(), 5u);
  EXPECT_EQ(random_sampler(10, false, 25).size(), 25);

  std::map<int64_t, int> counts;
  const auto weighted = read(weighted_random_sampler({0, 1, 3}, 4000), 1, 3)[0];
  for (const int64_t index : weighted) ++counts[index];
  EXPECT_EQ(counts[0], 0);
  EXPECT_NEAR(counts[2], 3000, 150);
  const auto once = read(weighted_random_sampler({0, 1, 3, 2}, 4, false), 1, 4)[0];
  EXPECT_EQ(sorted(once), range(4));
  EXPECT_EQ(once[3], 0);
}

TEST(Samplers, MoreWeightsThanTorchTakesAreDrawnByATable) {
  std::vector<double> weights((size_t{1} << 24) + 1, 0.0);
  weights.back() = 1;
  Loader loader(make_dataset(Numbered{.samples = std::ssize(weights)}),
                {.batch_size = 1000, .sampler = weighted_random_sampler(weights, 2500)});
  int64_t samples = 0;
  for (const Batch& batch : loader)
    for (const int64_t index : batch.indices()) {
      ASSERT_EQ(index, 1 << 24);
      ++samples;
    }
  EXPECT_EQ(samples, 2500);
}

TEST(Samplers, AMixtureKeepsItsProportions) {
  const Sampler sampler = mixture_sampler({6, 0, 3}, {3, 0, 1}, 40, 5);
  EXPECT_EQ(sampler.size(), 40);
  const auto order = sampler.at(1, range(40));
  EXPECT_NE(order, sampler.at(2, range(40)));
  int64_t of_last = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    of_last += order[i] >= 6;
    EXPECT_LT(std::abs(static_cast<double>(of_last) - static_cast<double>(i + 1) / 4), 1.0);
  }
  EXPECT_EQ(mixture_sampler({6, 0, 3}, {3, 0, 1}).size(), 9);
  EXPECT_EQ(mixture_sampler({3, 2}, {1, 0}, 7, 0, false).at(0, range(7)),
            (std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0}));
  // What makes ranks equal is drawn on.
  std::vector<int64_t> both;
  for (int rank = 0; rank < 2; ++rank) {
    const auto part = read(mixture_sampler({3, 2}, {1, 0}, 7, 0, false, {rank, 2}), 1, 5)[0];
    both.insert(both.end(), part.begin(), part.end());
  }
  EXPECT_EQ(both, (std::vector<int64_t>{0, 2, 1, 0, 1, 0, 2, 1}));
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

// The first indices of an epoch's batches of two.
std::vector<int64_t> firsts(int64_t samples, const EqualSteps& steps) {
  Loader loader(make_dataset(Numbered{.samples = samples}), {.batch_size = 2, .equal_steps = steps});
  EXPECT_EQ(loader.size(), steps.steps);
  std::vector<int64_t> first;
  for (int epoch = 0; epoch < 2; ++epoch) {
    first.clear();
    for (const Batch& batch : loader) first.push_back(batch.indices()[0]);
  }
  return first;
}

TEST(EqualSteps, EveryRankTakesAsMany) {
  using Again = EqualSteps::Again;
  EXPECT_EQ(firsts(10, {3}), (std::vector<int64_t>{0, 2, 4}));
  EXPECT_EQ(firsts(10, {0}), (std::vector<int64_t>{}));
  EXPECT_EQ(firsts(10, {7}), (std::vector<int64_t>{0, 2, 4, 6, 8, 8, 8}));
  EXPECT_EQ(firsts(10, {7, Again::first}), (std::vector<int64_t>{0, 2, 4, 6, 8, 0, 2}));
  EXPECT_EQ(firsts(4, {7, Again::first}), (std::vector<int64_t>{0, 2, 0, 2, 0, 2, 0}));
}

TEST(EqualSteps, ABatchThatComesAgainHasOtherRandomNumbers) {
  // As in an undisturbed run, when the state is from behind its first time.
  const auto make = [] {
    return Loader(make_dataset(Numbered{.samples = 4}), {.batch_size = 2, .equal_steps = EqualSteps{5}});
  };
  std::vector<std::string> states;
  std::vector<std::vector<uint32_t>> bits;
  const auto bits_of = [](const Batch& batch) {
    const auto read = batch["bits"].as<uint32_t>();
    return std::vector<uint32_t>(read.begin(), read.end());
  };
  Loader loader = make();
  for (Batch batch; loader.next(batch);) {
    bits.push_back(bits_of(batch));
    states.push_back(loader.state());
  }
  ASSERT_EQ(bits.size(), 5u);
  EXPECT_NE(bits[1], bits[2]);
  for (size_t at = 0; at + 1 < states.size(); ++at) {
    Loader again = make();
    again.load_state(states[at]);
    Batch batch;
    for (size_t next = at + 1; next < bits.size(); ++next) {
      ASSERT_TRUE(again.next(batch));
      EXPECT_EQ(bits_of(batch), bits[next]) << at;
    }
    EXPECT_FALSE(again.next(batch));
  }
}

TEST(SamplerErrors, NameTheArgument) {
  const auto kind = [](const std::function<void()>& call, const std::string& says) {
    EXPECT_EQ(kind_of(call, says), ErrorKind::invalid_argument);
  };
  kind([] { sequential_sampler(-1); }, "n=-1");
  kind([] { random_sampler(-1); }, "n=-1");
  kind([] { random_sampler(3, true, 0); }, "num_samples=0");
  kind([] { random_sampler(0, true, 2); }, "n=0");
  kind([] { weighted_random_sampler({1, NAN}, 1); }, "weights[1]");
  kind([] { weighted_random_sampler({0, 0}, 1); }, "above 0");
  kind([] { weighted_random_sampler({1, 1}, 0); }, "num_samples");
  kind([] { weighted_random_sampler({1, 0}, 3, false); }, "without replacement");
  kind([] { mixture_sampler({}, {}); }, "one at least");
  kind([] { mixture_sampler({3, -1}, {1, 1}); }, "lengths[1]");
  kind([] { mixture_sampler({3}, {1, 1}); }, "one for each");
  kind([] { mixture_sampler({3}, {0}); }, "not all 0");
  kind([] { mixture_sampler({3}, {INFINITY}); }, "finite");
  kind([] { mixture_sampler({3, 0}, {1, 1}); }, "source 1");
  kind([] { mixture_sampler({3}, {1}, 0); }, "num_samples=0");
  kind([] { Loader(make_dataset(Numbered{}), {.equal_steps = EqualSteps{-1}}); }, "equal_steps");
  kind([] { Loader(make_dataset(Numbered{.samples = 0}), {.equal_steps = EqualSteps{2}}); }, "no samples");
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
  kind([&] { weighted_random_sampler({1}, 1).at(0, one); }, "weighted_random_sampler()");
  kind([] { Sampler{}.size(); }, "empty");
  kind([] { BatchSampler{}.size(); }, "empty");
  // Numbers whose sum or product is none.
  const int64_t most = std::numeric_limits<int64_t>::max(), half = int64_t{1} << 61;
  kind([=] { shard_shuffle({most, most, 2}); }, "shard_lengths should be at most 2**62 together");
  kind([=] { two_tier_shuffle({half, half, 1}, 5); }, "shard_lengths[2] is 1");
  kind([=] { mixture_sampler({most, most}, {1, 1}); }, "lengths should be at most 2**62");
  kind([=] { mixture_sampler({3}, {1}, most); }, "num_samples");
  kind([=] { sequential_sampler(most); }, "n should be at most 2**62");
  kind([=] { random_sampler(3, true, most); }, "num_samples should be at most 2**62");
  kind([=] { weighted_sampler({1}, most); }, "num_samples should be at most 2**62");
  kind([=] { weighted_random_sampler({1}, most); }, "num_samples should be at most 2**62");
  kind([=] { shuffle_buffer(3, most); }, "buffer_size");
  kind([=] { batches_of(sequential_sampler(3), most); }, "batch_size should be at most 2**62");
  kind([&] { stratified_batches(one, 2 * half, 0, {0, 2}); }, "2 ranks");
  kind([] { distributed_sampler(3, {0, std::numeric_limits<int>::min()}); }, "Invalid rank");
  EXPECT_EQ(batches_of(sequential_sampler(3), 2 * half).size(), 1);
  EXPECT_EQ(shard_shuffle({half, half}).size(), 2 * half);
  EXPECT_EQ(kind_of([] { permutation_sampler(3).at(0, std::vector<int64_t>{3}); }), ErrorKind::out_of_range);
}

}  // namespace
}  // namespace millrace
