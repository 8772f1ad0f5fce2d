// RandomPermutation: torch's own results, laziness, and seeking. (tests/parity compares with the installed torch.)
#include "samplers/random_permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "millrace/error.h"

namespace millrace {
namespace {

using Indices = std::vector<int64_t>;

Indices all(RandomPermutation permutation) {
  Indices out(static_cast<size_t>(permutation.size()));
  EXPECT_EQ(permutation.take(out), out.size());
  return out;
}

// Written down from torch.randperm(n, generator=torch.Generator().manual_seed(seed)).
TEST(RandomPermutation, TorchsResults) {
  EXPECT_EQ(all({5, 0}), (Indices{4, 0, 1, 3, 2}));
  EXPECT_EQ(all({5, 1}), (Indices{0, 4, 2, 3, 1}));
  EXPECT_EQ(all({5, (uint64_t{1} << 32) + 5}), (Indices{1, 3, 0, 4, 2}));
  EXPECT_EQ(all({5, ~uint64_t{0} >> 1}), (Indices{1, 3, 4, 2, 0}));
  EXPECT_EQ(all({5, static_cast<uint64_t>(-3)}), (Indices{1, 4, 0, 3, 2}));
}

TEST(RandomPermutation, IsAPermutation) {
  for (const int64_t n : {0, 1, 2, 1000}) {
    Indices order = all({n, 9}), numbers(static_cast<size_t>(n));
    std::iota(numbers.begin(), numbers.end(), 0);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, numbers);
  }
}

TEST(RandomPermutation, PiecesEqualTheWhole) {
  const Indices whole = all({1000, 42});
  RandomPermutation permutation(1000, 42);
  Indices pieces;
  for (size_t step = 1; pieces.size() < 1000; ++step) {
    Indices part(step);
    part.resize(permutation.take(part));
    pieces.insert(pieces.end(), part.begin(), part.end());
  }
  EXPECT_EQ(pieces, whole);
  Indices more(3);
  EXPECT_EQ(permutation.take(more), 0u);
}

TEST(RandomPermutation, SeeksBothWays) {
  const Indices whole = all({1000, 42});
  RandomPermutation permutation(1000, 42);
  for (const int64_t position : {500, 10, 999, 0, 1000}) {
    permutation.seek(position);
    EXPECT_EQ(permutation.position(), position);
    Indices one(1);
    ASSERT_EQ(permutation.take(one), position < 1000 ? 1u : 0u);
    if (position < 1000) {
      EXPECT_EQ(one[0], whole[static_cast<size_t>(position)]);
    }
  }
  EXPECT_THROW(permutation.seek(1001), Error);
  EXPECT_THROW(permutation.seek(-1), Error);
}

TEST(RandomPermutation, NegativeSizes) { EXPECT_THROW(RandomPermutation(-1, 0), Error); }

}  // namespace
}  // namespace millrace
