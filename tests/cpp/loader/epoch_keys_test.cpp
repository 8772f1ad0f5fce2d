// Indices to keys: negative ones, repeated ones, wrong ones.
#include "loader/epoch_keys.h"

#include <gtest/gtest.h>

#include <vector>

namespace millrace::loader {
namespace {

TEST(EpochKeys, CountsOccurrencesAcrossBatchesOfAnEpoch) {
  EpochKeys keys(10);
  const auto first = keys.resolve(std::vector<int64_t>{3, 3, -7, 5});
  const std::vector<uint32_t> counts = {first[0].occurrence, first[1].occurrence, first[2].occurrence,
                                        first[3].occurrence};
  EXPECT_EQ(counts, (std::vector<uint32_t>{0, 1, 2, 0}));
  EXPECT_EQ(first[2].index, 3);
  EXPECT_EQ(keys.resolve(std::vector<int64_t>{3})[0].occurrence, 3u);
  keys.restart();
  EXPECT_EQ(keys.resolve(std::vector<int64_t>{3})[0].occurrence, 0u);
}

TEST(EpochKeys, KeepsAWrongIndexAsItWasGiven) {
  EpochKeys keys(10);
  for (const int64_t wrong : {int64_t{10}, int64_t{-11}, INT64_MAX, INT64_MIN}) {
    const auto resolved = keys.resolve(std::vector<int64_t>{wrong});
    EXPECT_EQ(resolved[0].index, wrong);
  }
  EXPECT_EQ(EpochKeys(0).resolve(std::vector<int64_t>{0})[0].index, 0);
}

TEST(EpochKeys, EndsOfTheRangeAreInside) {
  EpochKeys keys(10);
  EXPECT_EQ(keys.resolve(std::vector<int64_t>{-10})[0].index, 0);
  EXPECT_EQ(keys.resolve(std::vector<int64_t>{-1})[0].index, 9);
  EXPECT_EQ(keys.resolve(std::vector<int64_t>{9})[0].occurrence, 1u);
}

}  // namespace
}  // namespace millrace::loader
