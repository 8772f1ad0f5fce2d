// RandomPermutation: torch's own results, rounds, and questions in any order. (tests/parity compares with the
// installed torch.)
#include "samplers/random_permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "millrace/error.h"

namespace millrace::samplers {
namespace {

using Indices = std::vector<int64_t>;

Indices ask(RandomPermutation& permutation, const Indices& positions) {
  Indices out(positions.size());
  permutation.at(positions, out);
  return out;
}

Indices numbers(int64_t count) {
  Indices out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

Indices all(RandomPermutation permutation) { return ask(permutation, numbers(permutation.size())); }

// Written down from torch.randperm(n, generator=torch.Generator().manual_seed(seed)).
TEST(RandomPermutation, TorchsResults) {
  EXPECT_EQ(all({5, 0}), (Indices{4, 0, 1, 3, 2}));
  EXPECT_EQ(all({5, 1}), (Indices{0, 4, 2, 3, 1}));
  EXPECT_EQ(all({5, (uint64_t{1} << 32) + 5}), (Indices{1, 3, 0, 4, 2}));
  EXPECT_EQ(all({5, ~uint64_t{0} >> 1}), (Indices{1, 3, 4, 2, 0}));
  EXPECT_EQ(all({5, static_cast<uint64_t>(-3)}), (Indices{1, 4, 0, 3, 2}));
}

TEST(RandomPermutation, EveryRoundIsAPermutation) {
  for (const int64_t n : {1, 2, 31, 32, 33, 1000}) {
    RandomPermutation permutation(n, 9);
    const Indices rounds = ask(permutation, numbers(3 * n));
    for (int round = 0; round < 3; ++round) {
      Indices order(rounds.begin() + round * n, rounds.begin() + (round + 1) * n);
      std::sort(order.begin(), order.end());
      EXPECT_EQ(order, numbers(n));
    }
  }
}

TEST(RandomPermutation, PositionsThatFollowEachOther) {
  for (const int64_t n : {1, 2, 31, 32, 33, 1000}) {
    RandomPermutation asked(n, 9), read(n, 9);
    const Indices expected = ask(asked, numbers(3 * n));
    std::mt19937 pieces(3);
    for (int64_t at = 0; at < 3 * n;) {
      Indices piece(static_cast<size_t>(std::min<int64_t>(3 * n - at, pieces() % 90)));
      read.read(at, piece);
      for (const int64_t index : piece) ASSERT_EQ(index, expected[static_cast<size_t>(at++)]);
    }
    Indices before(1);
    read.read(0, before);  // of the first round again
    EXPECT_EQ(before.front(), expected.front());
  }
  Indices one(1), none;
  EXPECT_THROW(RandomPermutation(5, 0).read(-1, one), Error);
  EXPECT_THROW(RandomPermutation(0, 0).read(0, one), Error);
  RandomPermutation(0, 0).read(0, none);
}

TEST(RandomPermutation, AnyOrderOfQuestions) {
  constexpr int64_t n = 300;
  RandomPermutation first(n, 42), second(n, 42);
  const Indices whole = ask(first, numbers(4 * n));
  std::mt19937 questions(1);
  for (int i = 0; i < 200; ++i) {
    Indices positions(questions() % 20), expected;
    for (int64_t& position : positions) position = questions() % (4 * n);
    for (const int64_t position : positions) expected.push_back(whole[static_cast<size_t>(position)]);
    EXPECT_EQ(ask(second, positions), expected);
  }
}

TEST(RandomPermutation, StartsAtOnceAndTakesMemoryAsItIsTouched) {
  RandomPermutation permutation(200'000'000, 1);  // 800 MB, were it all touched
  EXPECT_EQ(ask(permutation, numbers(100)).size(), 100u);
}

TEST(RandomPermutation, BadQuestions) {
  EXPECT_THROW(RandomPermutation(-1, 0), Error);
  RandomPermutation none(0, 0), some(3, 0);
  EXPECT_TRUE(ask(none, {}).empty());
  EXPECT_THROW(ask(none, {0}), Error);
  EXPECT_THROW(ask(some, {-1}), Error);
}

}  // namespace
}  // namespace millrace::samplers
