// States: any batch of any epoch can be gone on from, under any number of threads, and what is no state is
// refused.
#include "millrace/state.h"

#include <gtest/gtest.h>

#include "errors_of.h"
#include "millrace/loader.h"
#include "own_samples.h"

namespace millrace {
namespace {

// What a batch is: its number, its indices, and the random bits of its samples.
using Seen = std::tuple<int64_t, std::vector<int64_t>, std::vector<uint32_t>>;

Seen seen(const Batch& batch) {
  const auto bits = batch["bits"].as<uint32_t>();
  return {batch.number(), batch.indices(), {bits.begin(), bits.end()}};
}

std::vector<Seen> batches_of(Loader& loader) {
  std::vector<Seen> batches;
  Batch batch;
  while (loader.next(batch)) batches.push_back(seen(batch));
  return batches;
}

LoaderOptions options_of(int kind, int threads) {
  LoaderOptions options{.batch_size = 4, .threads = threads, .seed = 99};
  const std::vector<double> weights{0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                    12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22};
  switch (kind) {
    case 0: break;
    case 1: options.shuffle = true; break;
    case 2: options.shuffle = options.drop_last = true; break;
    case 3: options.sampler = distributed_sampler(23, {1, 2}, 3); break;
    case 4: options.sampler = weighted_sampler(weights, 30, true, 9, {0, 2}); break;
    case 5: options.sampler = two_tier_shuffle({5, 18}, 4); break;
    default:
      options.batch_size = 1;
      options.batch_sampler = stratified_batches(std::vector<int64_t>(23, 1), 4, 4, {1, 3});
  }
  return options;
}

class States : public ::testing::TestWithParam<std::tuple<int, int>> {};
INSTANTIATE_TEST_SUITE_P(SamplersAndThreads, States,
                         ::testing::Combine(::testing::Range(0, 7), ::testing::Values(0, 1, 4)));

TEST_P(States, EveryBatchCanBeGoneOnFrom) {
  const auto [kind, threads] = GetParam();
  const Dataset data = make_dataset(Numbered{.samples = 23});
  Loader whole(data, options_of(kind, threads));
  std::vector<std::pair<std::string, size_t>> states{{whole.state(), 0}};  // and how many batches came before
  std::vector<std::vector<Seen>> epochs(3);
  size_t count = 0;
  for (auto& epoch : epochs) {
    Batch batch;
    while (whole.next(batch)) {
      epoch.push_back(seen(batch));
      states.emplace_back(whole.state(), ++count);
    }
    states.emplace_back(whole.state(), count);
  }
  for (size_t i = 0; i < states.size(); ++i) {
    // Those at an epoch's last batch resume to an empty rest.
    const auto& [state, before] = states[i];
    Loader rest(data, options_of(kind, i % 2 == 0 ? threads : 4 - threads));
    rest.load_state(state);
    EXPECT_EQ(rest.state(), state);
    std::vector<Seen> expected, found;
    size_t at = 0;
    for (const auto& epoch : epochs)
      for (const Seen& batch : epoch)
        if (at++ >= before) expected.push_back(batch);
    const int64_t first = rest.epoch();
    for (int64_t epoch = first; epoch < 3; ++epoch)
      for (Seen& batch : batches_of(rest)) found.push_back(std::move(batch));
    ASSERT_EQ(found, expected) << "state " << i << " of sampler " << kind;
  }
}

TEST_P(States, GoOnInTheMiddleOfALoop) {
  const auto [kind, threads] = GetParam();
  Loader loader(make_dataset(Numbered{.samples = 23}), options_of(kind, threads));
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  const std::string state = loader.state();
  ASSERT_TRUE(loader.next(batch));
  const Seen second = seen(batch);
  for (int again = 0; again < 3; ++again) {
    loader.load_state(state);
    int64_t count = 0;
    for (const Batch& each : loader) {
      if (count++ == 0) {
        EXPECT_EQ(seen(each), second);
      }
    }
    EXPECT_EQ(count, loader.size() - 1);
  }
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), with);
}

TEST(StateErrors, SayWhatIsWrong) {
  const Dataset data = make_dataset(Numbered{.samples = 23});
  Loader loader(data, options_of(1, 0));
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  const std::string state = loader.state();
  const auto refused = [&](const std::string& text, const std::string& says, const LoaderOptions& options,
                           const Dataset& of) {
    Loader other(of, options);
    try {
      other.load_state(text);
      ADD_FAILURE() << "was taken: " << says;
    } catch (const StateError& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
    EXPECT_TRUE(other.next(batch));  // as if nothing had been loaded
    EXPECT_EQ(batch.number(), 0);
  };
  const LoaderOptions same = options_of(1, 0);
  refused("", "no JSON", same, data);
  refused("{\"a\": ", "no JSON", same, data);
  refused("[]", "should be an object", same, data);
  refused("{}", "no loader's state", same, data);
  refused("{\"kind\": \"RandomSampler\", \"position\": 3}", "state of a sampler", same, data);
  refused("{\"_num_yielded\": 3}", "millrace.DataLoader", same, data);
  refused(replaced(state, "\"_num_yielded\": 1", "\"_num_yielded\": 2"), "damaged", same, data);
  refused(replaced(state, "\"version\": 1, \"base_seed\"", "\"version\": 2, \"base_seed\""), "version 2",
          same, data);
  refused(replaced(state, "\"millrace\": {", "\"nothing\": {"), "millrace.DataLoader", same, data);
  refused(state, "sampler", options_of(0, 0), data);
  refused(state, "drop_last", options_of(2, 0), data);
  LoaderOptions larger = same;
  larger.batch_size = 5;
  refused(state, "batch_size", larger, data);
  refused(state, "samples in the dataset", same, make_dataset(Numbered{.samples = 24}));
}

TEST(MergedStates, GoOnUnderAnyNumberOfRanks) {
  const Dataset data = make_dataset(Numbered{.samples = 23});
  const auto options = [](int rank, int count) {
    return LoaderOptions{.batch_size = 2, .sampler = permutation_sampler(23, 5, {rank, count})};
  };
  std::vector<std::string> states;
  for (int rank = 0; rank < 2; ++rank) {
    Loader loader(data, options(rank, 2));
    Batch batch;
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(loader.next(batch));
    states.push_back(loader.state());
  }
  const std::string merged = merge_states(states);
  std::multiset<int64_t> rest, expected;
  for (int rank = 0; rank < 3; ++rank) {
    Loader loader(data, options(rank, 3));
    loader.load_state(merged);
    for (const Seen& batch : batches_of(loader))
      rest.insert(std::get<1>(batch).begin(), std::get<1>(batch).end());
  }
  std::vector<int64_t> positions;
  for (int64_t i = 12; i < 24; ++i) positions.push_back(i % 23);  // the first one fills up the last step
  for (const int64_t index : permutation_sampler(23, 5).at(0, positions)) expected.insert(index);
  EXPECT_EQ(rest, expected);

  EXPECT_EQ(kind_of([] { merge_states({}); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([&] { merge_states({states[0]}); }, "2 ranks"), ErrorKind::invalid_argument);
  Loader other(data, options(1, 2));
  EXPECT_EQ(kind_of([&] { merge_states({states[0], other.state()}); }, "number of batches"),
            ErrorKind::invalid_argument);
  Loader alone(data, options_of(1, 0));
  EXPECT_EQ(kind_of([&] { merge_states({alone.state(), alone.state()}); }, "cannot be merged"),
            ErrorKind::invalid_argument);
}

}  // namespace
}  // namespace millrace
