// KeyedPermutation: a bijection for every n, and as random as a shuffle has to be.
#include "samplers/keyed_permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "millrace/error.h"
#include "statistics.h"

namespace millrace::samplers {
namespace {

using Indices = std::vector<int64_t>;

Indices ask(const KeyedPermutation& permutation, const Indices& positions) {
  Indices out(positions.size());
  permutation.at(positions, out);
  return out;
}

Indices every_element(const KeyedPermutation& permutation) {
  return ask(permutation, first_numbers(permutation.size()));
}

TEST(KeyedPermutation, IsABijectionForAllSizesUpTo5000) {
  for (int64_t n = 0; n <= 5000; ++n) {
    std::vector<bool> seen(static_cast<size_t>(n), false);
    for (const int64_t element : every_element({n, static_cast<uint64_t>(n) * 7, 3})) {
      ASSERT_TRUE(element >= 0 && element < n) << n;
      ASSERT_FALSE(seen[static_cast<size_t>(element)]) << n;
      seen[static_cast<size_t>(element)] = true;
    }
  }
}

TEST(KeyedPermutation, NeverGivesAnElementTwiceForSizesUpTo2To40) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 200; ++i) {
    const int64_t n = 1 + static_cast<int64_t>(random() >> (24 + random() % 24));
    const KeyedPermutation permutation(n, random(), random());
    // Neighbours, both ends, and places anywhere.
    std::set<int64_t> places{0, n - 1};
    for (int k = 0; k < 1000; ++k) places.insert(static_cast<int64_t>(random() % static_cast<uint64_t>(n)));
    for (int64_t k = 0; k < std::min<int64_t>(n, 1000); ++k) places.insert(k);
    const Indices positions(places.begin(), places.end()), elements = ask(permutation, positions);
    EXPECT_EQ(std::set<int64_t>(elements.begin(), elements.end()).size(), positions.size());
    EXPECT_TRUE(std::all_of(elements.begin(), elements.end(),
                            [n](int64_t element) { return element >= 0 && element < n; }));
  }
}

TEST(KeyedPermutation, LargestSizes) {
  const int64_t n = int64_t{1} << 62;
  const Indices elements = ask({n, 1, 1}, {0, 1, 2, n - 1, n / 2});
  EXPECT_EQ(std::set<int64_t>(elements.begin(), elements.end()).size(), 5u);
  EXPECT_THROW(KeyedPermutation(n + 1, 0, 0), Error);
  EXPECT_THROW(KeyedPermutation(-1, 0, 0), Error);
}

TEST(KeyedPermutation, ManyAtOnceAreTheSameAsOneByOne) {
  for (const int64_t n : {2, 3, 5, 1000, 1025, 70'000}) {
    const KeyedPermutation permutation(n, 3, 9, 4);
    const Indices together = every_element(permutation);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(permutation.at(i), together[static_cast<size_t>(i)]);
  }
}

TEST(KeyedPermutation, OutsideIsAnError) {
  const KeyedPermutation permutation(10, 0, 0);
  EXPECT_THROW(ask(permutation, {10}), Error);
  EXPECT_THROW(ask(permutation, {3, -1}), Error);
}

TEST(KeyedPermutation, EveryPartOfTheKeyMatters) {
  const Indices one = every_element({100, 1, 2, 3});
  EXPECT_NE(one, every_element({100, 2, 2, 3}));
  EXPECT_NE(one, every_element({100, 1, 3, 3}));
  EXPECT_NE(one, every_element({100, 1, 2, 4}));
  EXPECT_EQ(one, every_element({100, 1, 2, 3}));
}

TEST(KeyedPermutation, AllPermutationsOfFewElementsAreEquallyLikely) {
  for (const auto& [n, permutations] : {std::pair{2, 2}, {3, 6}, {4, 24}, {5, 120}, {6, 720}}) {
    std::map<Indices, int64_t> seen;
    for (uint64_t seed = 0; seed < 300'000; ++seed) ++seen[every_element({n, seed, 1})];
    ASSERT_EQ(seen.size(), static_cast<size_t>(permutations));
    std::vector<int64_t> counts;
    for (const auto& [order, count] : seen) counts.push_back(count);
    EXPECT_LT(uniform_deviation(counts), 5) << n;
  }
}

TEST(KeyedPermutation, PairsOfPlacesAreIndependent) {
  for (const int64_t n : {10, 16, 17, 31}) {
    for (const int64_t distance : {1, 2, 5}) {
      std::vector<int64_t> pairs(static_cast<size_t>(n * n));
      for (uint64_t epoch = 0; epoch < 100'000; ++epoch) {
        const KeyedPermutation permutation(n, 11, epoch);
        ++pairs[static_cast<size_t>(permutation.at(3) * n + permutation.at(3 + distance))];
      }
      std::vector<double> likely(pairs.size(), 1.0);
      for (int64_t i = 0; i < n; ++i) {
        EXPECT_EQ(pairs[static_cast<size_t>(i * n + i)], 0);
        likely[static_cast<size_t>(i * n + i)] = 0;
      }
      EXPECT_LT(chi_square_deviation(pairs, likely), 5) << n << " at distance " << distance;
    }
  }
}

// Knuth's run test on one long permutation: ascending runs, by length. Neighbouring runs share no element's
// fate when the element between them is left out; a run then has length r with probability 1/r! - 1/(r+1)!.
TEST(KeyedPermutation, RunsHaveTheLengthsOfAShuffle) {
  for (const int64_t n : {65'537, 1 << 20, 1'000'003}) {
    const Indices order = every_element({n, 5, 5});
    std::vector<int64_t> runs(7);
    std::vector<double> likely(7);
    for (size_t i = 0; i < order.size();) {
      size_t length = 1;
      while (i + length < order.size() && order[i + length] > order[i + length - 1]) ++length;
      ++runs[std::min<size_t>(length, 7) - 1];
      i += length + 1;
    }
    double factorial = 1;
    for (size_t r = 1; r <= 7; ++r) {
      factorial *= static_cast<double>(r);
      likely[r - 1] = r < 7 ? 1 / factorial - 1 / (factorial * static_cast<double>(r + 1)) : 1 / factorial;
    }
    EXPECT_LT(chi_square_deviation(runs, likely), 5) << n;
  }
}

TEST(KeyedPermutation, NeighboursLieAnywhere) {
  for (const int64_t n : {100'000, 1 << 20, 3'000'017}) {
    const Indices order = every_element({n, 1, 7});
    std::vector<int64_t> steps(64), places(64);
    for (size_t i = 0; i + 1 < order.size(); ++i) {
      ++steps[static_cast<size_t>((order[i + 1] - order[i] + n) % n * 64 / n)];
      ++places[static_cast<size_t>((static_cast<int64_t>(i) + order[i]) % n * 64 / n)];
    }
    EXPECT_LT(uniform_deviation(steps), 5) << n;
    EXPECT_LT(uniform_deviation(places), 5) << n;
  }
}

TEST(KeyedPermutation, SeedsAndEpochsSideBySideShareNothing) {
  const Indices first = every_element({100'000, 1, 0}), seed = every_element({100'000, 2, 0}),
                epoch = every_element({100'000, 1, 1});
  int fixed = 0, same_seed = 0, same_epoch = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    fixed += first[i] == static_cast<int64_t>(i);
    same_seed += first[i] == seed[i];
    same_epoch += first[i] == epoch[i];
  }
  for (const int shared : {fixed, same_seed, same_epoch}) EXPECT_LT(shared, 8);  // one in the mean
}

}  // namespace
}  // namespace millrace::samplers
