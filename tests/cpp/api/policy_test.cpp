// OnError: which samples take the places of those that cannot be read, whatever the number of threads.
#include <gtest/gtest.h>

#include "errors_of.h"
#include "millrace/loader.h"
#include "own_samples.h"

namespace millrace {
namespace {

std::vector<std::vector<int64_t>> indices_of(Loader& loader) {
  std::vector<std::vector<int64_t>> lists;
  for (const Batch& batch : loader) {
    lists.push_back(batch.indices());
    for (int64_t row = 0; row < batch.size(); ++row)  // ragged rows follow their fillers
      EXPECT_EQ(batch["words"].offsets()[static_cast<size_t>(row) + 1] -
                    batch["words"].offsets()[static_cast<size_t>(row)],
                batch.indices()[static_cast<size_t>(row)] % 4);
  }
  return lists;
}

class Policies : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, Policies, ::testing::Values(0, 1, 4));

using Lists = std::vector<std::vector<int64_t>>;

TEST_P(Policies, SkipTakesFromTheEnd) {
  const Dataset data = make_dataset(Numbered{.samples = 11, .bad = {1, 5, 10}});
  Loader loader(data, {.batch_size = 4, .threads = GetParam(), .on_error = OnError::skip});
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_EQ(indices_of(loader), (Lists{{0, 9, 2, 3}, {4, 8, 6, 7}}));
    EXPECT_EQ(loader.stats().left_out, 3 * (epoch + 1));
  }
  const LoaderStats stats = loader.stats();
  ASSERT_EQ(stats.errors.size(), 6u);
  EXPECT_EQ(stats.errors[0].path, "number 1");
  EXPECT_EQ(stats.errors[1].path, "number 10");  // tried in the place of 1
  EXPECT_EQ(stats.errors[2].path, "number 5");
  EXPECT_NE(stats.errors[0].reason.find("it is damaged"), std::string::npos);
}

TEST_P(Policies, SkipWithDropLastGivesFullBatchesOnly) {
  const Dataset data = make_dataset(Numbered{.samples = 12, .bad = {2}});
  Loader loader(data, {.batch_size = 4, .drop_last = true, .threads = GetParam(), .on_error = OnError::skip});
  EXPECT_EQ(indices_of(loader), (Lists{{0, 1, 11, 3}, {4, 5, 6, 7}}));
}

TEST_P(Policies, ReplaceTakesTheNextOne) {
  const Dataset data = make_dataset(Numbered{.samples = 10, .bad = {3, 4, 9}});
  Loader loader(data, {.batch_size = 5, .threads = GetParam(), .on_error = OnError::replace});
  EXPECT_EQ(indices_of(loader), (Lists{{0, 1, 2, 5, 5}, {5, 6, 7, 8, 0}}));
}

TEST_P(Policies, NothingThatCanBeReadIsAnErrorUnderEach) {
  for (const OnError policy : {OnError::raise, OnError::skip, OnError::replace}) {
    Loader loader(make_dataset(Numbered{.samples = 3, .bad = {0, 1, 2}}),
                  {.batch_size = 3, .threads = GetParam(), .on_error = policy});
    Batch batch;
    EXPECT_EQ(kind_of([&] { loader.next(batch); }, "it is damaged"), ErrorKind::corrupt_data);
    EXPECT_FALSE(loader.next(batch));
  }
}

TEST_P(Policies, IndicesThatAreWrongAreThrownUnderEach) {
  for (const OnError policy : {OnError::raise, OnError::skip, OnError::replace}) {
    Loader loader(
        make_dataset(Numbered{.samples = 3}),
        {.batch_size = 4, .threads = GetParam(), .on_error = policy, .sampler = sequential_sampler(4)});
    Batch batch;
    EXPECT_EQ(kind_of([&] { loader.next(batch); }, "index 3"), ErrorKind::out_of_range);
  }
}

TEST_P(Policies, StatesRememberWhatWasLeftOut) {
  const Dataset data = make_dataset(Numbered{.samples = 23, .bad = {0, 6, 13, 22}});
  const LoaderOptions options{
      .batch_size = 4, .shuffle = true, .threads = GetParam(), .seed = 3, .on_error = OnError::skip};
  Loader whole(data, options);
  Lists lists;
  std::vector<std::string> states{whole.state()};
  for (const Batch& batch : whole) {
    lists.push_back(batch.indices());
    states.push_back(whole.state());
  }
  const Lists second = indices_of(whole);
  for (size_t i = 0; i < states.size(); ++i) {
    Loader rest(data, options);
    rest.load_state(states[i]);
    EXPECT_EQ(indices_of(rest), Lists(lists.begin() + static_cast<std::ptrdiff_t>(i), lists.end())) << i;
    EXPECT_EQ(indices_of(rest), second) << i;
  }
}

}  // namespace
}  // namespace millrace
