// Mixture: passes are permutations, a start in the middle goes on, and any position can be asked for.
#include "samplers/mixture.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "millrace/error.h"
#include "statistics.h"

namespace millrace::samplers {
namespace {

using Indices = std::vector<int64_t>;

const Indices kLengths{4, 10, 7};

Indices ask(Mixture& mixture, const Indices& positions) {
  Indices out(positions.size());
  mixture.at(positions, out);
  return out;
}

Indices of_source(const Indices& samples, int64_t first, int64_t length) {
  Indices found;
  for (const int64_t sample : samples)
    if (sample >= first && sample < first + length) found.push_back(sample);
  return found;
}

TEST(Mixture, EveryPassIsANewPermutation) {
  Mixture mixture(kLengths, {5, 3, 1}, 1, 1, true);
  const Indices samples = ask(mixture, first_numbers(2000));
  int64_t first = 0;
  for (const int64_t length : kLengths) {
    const Indices drawn = of_source(samples, first, length);
    std::set<Indices> passes;
    size_t count = 0;
    for (size_t begin = 0; begin + static_cast<size_t>(length) <= drawn.size();
         begin += static_cast<size_t>(length), ++count) {
      const Indices pass(drawn.begin() + static_cast<int64_t>(begin),
                         drawn.begin() + static_cast<int64_t>(begin) + length);
      EXPECT_EQ(std::set<int64_t>(pass.begin(), pass.end()).size(), static_cast<size_t>(length));
      passes.insert(pass);
    }
    EXPECT_GT(passes.size(), std::min<size_t>(count, 24) / 2);
    first += length;
  }
}

TEST(Mixture, WithoutShuffleSourcesKeepTheirOrder) {
  Mixture mixture(kLengths, {1, 1, 0}, 1, 1, false);
  const Indices samples = ask(mixture, first_numbers(20));
  EXPECT_EQ(of_source(samples, 0, 4), (Indices{0, 1, 2, 3, 0, 1, 2, 3, 0, 1}));
  EXPECT_EQ(of_source(samples, 4, 10), (Indices{4, 5, 6, 7, 8, 9, 10, 11, 12, 13}));
}

TEST(Mixture, AnyPosition) {
  Mixture mixture(kLengths, {5, 3, 1}, 1, 1, true), other(kLengths, {5, 3, 1}, 1, 1, true);
  const Indices whole = ask(mixture, first_numbers(500));
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    const auto position = static_cast<int64_t>(random() % 500);
    EXPECT_EQ(ask(other, {position})[0], whole[static_cast<size_t>(position)]);
  }
}

TEST(Mixture, StartsInTheMiddleWithOtherWeights) {
  Mixture before(kLengths, {1, 1, 1}, 1, 1, true);
  const Indices samples = ask(before, first_numbers(100));
  const Indices counts = before.counts_at(100);
  EXPECT_EQ(counts[0] + counts[1] + counts[2], 100);
  Mixture after(kLengths, {0, 1, 0}, 1, 1, true, 100, counts);
  Indices positions;
  for (int64_t i = 100; i < 110; ++i) positions.push_back(i);
  Indices drawn = of_source(samples, 4, 10), more = ask(after, positions);
  drawn.insert(drawn.end(), more.begin(), more.end());
  // The pass that was under way is finished first.
  const size_t begin = drawn.size() / 10 * 10 - 10;
  EXPECT_EQ(std::set<int64_t>(drawn.begin() + static_cast<int64_t>(begin),
                              drawn.begin() + static_cast<int64_t>(begin) + 10)
                .size(),
            10u);
  EXPECT_THROW(ask(after, {99}), Error);
  EXPECT_EQ(after.counts_at(110)[1], counts[1] + 10);
}

TEST(Mixture, BadArguments) {
  EXPECT_THROW(Mixture(kLengths, {1, 1}, 0, 0, true), Error);
  EXPECT_THROW(Mixture(Indices{3, 0}, {1, 1}, 0, 0, true), Error);
  EXPECT_THROW(Mixture(Indices{3, -1}, {1, 0}, 0, 0, true), Error);
  EXPECT_THROW(Mixture(kLengths, {1, 1, 1}, 0, 0, true, 0, {1, 2}), Error);
  EXPECT_THROW(Mixture(kLengths, {1, 1, 1}, 0, 0, true, 0, {1, -2, 3}), Error);
}

}  // namespace
}  // namespace millrace::samplers
