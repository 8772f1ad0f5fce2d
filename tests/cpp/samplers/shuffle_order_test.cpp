// ShuffleOrder: what a shuffle buffer does, step by step, and the same from any step.
#include "samplers/shuffle_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "millrace/error.h"
#include "statistics.h"

namespace millrace::samplers {
namespace {

using Indices = std::vector<int64_t>;

Indices ask(ShuffleOrder& order, const Indices& positions) {
  Indices out(positions.size());
  order.at(positions, out);
  return out;
}

Indices all(ShuffleOrder order) { return ask(order, first_numbers(order.size())); }

TEST(ShuffleOrder, GivesEverySampleOnceAndNoneBeforeItIsRead) {
  for (const int64_t n : {0, 1, 2, 9, 10, 11, 500}) {
    for (const int64_t size : {1, 2, 10, 499, 500, 1000}) {
      Indices order = all({n, size, 4, 2});
      for (int64_t step = 0; step < n; ++step) EXPECT_LT(order[static_cast<size_t>(step)], step + size);
      std::sort(order.begin(), order.end());
      EXPECT_EQ(order, first_numbers(n));
    }
  }
}

TEST(ShuffleOrder, ABufferOfOneChangesNothing) { EXPECT_EQ(all({100, 1, 1, 1}), first_numbers(100)); }

TEST(ShuffleOrder, SeeksAnywhere) {
  for (const int64_t n : {30, 400, 5000}) {
    for (const int64_t size : {1, 3, 50, 500}) {
      const Indices whole = all({n, size, 4, 2});
      ShuffleOrder order(n, size, 4, 2);
      std::mt19937 random(1);
      for (int i = 0; i < 200; ++i) {
        const auto position = static_cast<int64_t>(random() % n);
        ASSERT_EQ(ask(order, {position})[0], whole[static_cast<size_t>(position)])
            << n << ' ' << size << ' ' << position;
      }
    }
  }
}

TEST(ShuffleOrder, HeldIsWhatWasReadAndNotGiven) {
  constexpr int64_t n = 300, size = 20;
  const Indices whole = all({n, size, 7, 0});
  ShuffleOrder order(n, size, 7, 0);
  for (const int64_t step : {300, 0, 1, 299, 280, 281, 150, 19, 20, 21}) {
    Indices held = order.held(step);
    std::set<int64_t> expected;
    for (int64_t i = 0; i < std::min(n, step + size); ++i) expected.insert(i);
    for (int64_t i = 0; i < step; ++i) expected.erase(whole[static_cast<size_t>(i)]);
    EXPECT_EQ(std::set<int64_t>(held.begin(), held.end()), expected) << step;
    EXPECT_EQ(held.size(), expected.size());
  }
}

TEST(ShuffleOrder, TheEndIsFeltOnlyAtTheEnd) {
  const Indices endless = [] {
    ShuffleOrder order(int64_t{1} << 62, 20, 7, 0);
    return ask(order, first_numbers(281));
  }();
  Indices ending = all({300, 20, 7, 0});
  ending.resize(281);
  EXPECT_EQ(endless, ending);
}

TEST(ShuffleOrder, PlacesAreEquallyLikely) {
  Indices counts(50);
  for (uint64_t epoch = 0; epoch < 50'000; ++epoch) {
    ShuffleOrder order(1000, 50, 3, epoch);
    ++counts[static_cast<size_t>(ask(order, {0})[0])];
  }
  EXPECT_LT(uniform_deviation(counts), 5);
}

TEST(ShuffleOrder, FarAwayCostsNoMoreThanNear) {
  ShuffleOrder order(int64_t{1} << 50, 1000, 1, 1);
  EXPECT_EQ(ask(order, {int64_t{1} << 49}).size(), 1u);
}

TEST(ShuffleOrder, BadArguments) {
  EXPECT_THROW(ShuffleOrder(-1, 1, 0, 0), Error);
  EXPECT_THROW(ShuffleOrder(1, 0, 0, 0), Error);
  ShuffleOrder order(5, 2, 0, 0);
  EXPECT_THROW(ask(order, {5}), Error);
  EXPECT_THROW(ask(order, {-1}), Error);
  EXPECT_THROW(order.held(6), Error);
}

}  // namespace
}  // namespace millrace::samplers
