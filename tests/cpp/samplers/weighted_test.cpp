// AliasTable and weighted_order: the right probabilities, and clear errors.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "millrace/error.h"
#include "samplers/alias_table.h"
#include "statistics.h"

namespace millrace::samplers {
namespace {

using Indices = std::vector<int64_t>;
using Weights = std::vector<double>;

Indices ask(const AliasTable& table, const Indices& positions) {
  Indices out(positions.size());
  table.at(positions, out);
  return out;
}

TEST(AliasTable, DrawsByWeight) {
  Weights steep;
  for (int i = 0; i < 300; ++i) steep.push_back(std::pow(0.97, i));
  for (const Weights& weights :
       {Weights{1}, Weights{1, 1}, Weights{0.5, 0, 3, 1e-3, 7}, Weights(1000, 0.1), steep}) {
    Indices counts(weights.size());
    for (const int64_t category : ask({weights, 3, 1}, first_numbers(1'000'000)))
      ++counts[static_cast<size_t>(category)];
    if (weights.size() > 1) {
      EXPECT_LT(chi_square_deviation(counts, weights), 5) << weights.size();
    }
    for (size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0) {
        EXPECT_EQ(counts[i], 0);
      }
    }
  }
}

TEST(AliasTable, NeverDrawsWhatHasNoWeight) {
  Weights weights(997, 0.0);
  for (size_t i = 0; i < weights.size(); i += 7) weights[i] = 1.0 / 3 + static_cast<double>(i) * 1e-9;
  for (const int64_t category : ask({weights, 1, 1}, first_numbers(200'000))) ASSERT_EQ(category % 7, 0);
}

TEST(AliasTable, NeighbouringDrawsAreIndependent) {
  const Indices drawn = ask({Weights(8, 1.0), 9, 0}, first_numbers(400'000));
  Indices pairs(64);
  for (size_t i = 0; i + 1 < drawn.size(); i += 2) ++pairs[static_cast<size_t>(drawn[i] * 8 + drawn[i + 1])];
  EXPECT_LT(uniform_deviation(pairs), 5);
}

TEST(AliasTable, AnyPositionAtOnce) {
  const AliasTable table(Weights{1, 2, 3}, 5, 0);
  const Indices whole = ask(table, first_numbers(1000));
  EXPECT_EQ(ask(table, {999, 0, 500, 1}), (Indices{whole[999], whole[0], whole[500], whole[1]}));
  EXPECT_EQ(ask(table, {int64_t{1} << 60}).size(), 1u);
}

TEST(AliasTable, BadWeights) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (const Weights& weights :
       {Weights{}, Weights{0, 0}, Weights{1, -1}, Weights{nan, 1}, Weights{inf}, Weights{1e308, 1e308}}) {
    EXPECT_THROW(AliasTable(weights, 0, 0), Error);
    EXPECT_THROW(weighted_order(weights, 0, 0, 0), Error);
  }
}

TEST(WeightedOrder, EachCategoryOnceAndTheHeavyFirst) {
  const Weights weights{1, 2, 0, 3};
  std::map<Indices, int64_t> seen;
  for (uint64_t seed = 0; seed < 60'000; ++seed) ++seen[weighted_order(weights, 3, seed, 0)];
  Indices counts;
  Weights likely;
  for (const auto& [order, count] : seen) {
    EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 3u);
    double left = 6, probability = 1;
    for (const int64_t category : order) {
      const double weight = weights[static_cast<size_t>(category)];
      probability *= weight / left;
      left -= weight;
    }
    counts.push_back(count);
    likely.push_back(probability);
  }
  EXPECT_EQ(seen.size(), 6u);
  EXPECT_LT(chi_square_deviation(counts, likely), 5);
}

TEST(WeightedOrder, FewerThanAllAreThoseAPrefixWouldBe) {
  Weights weights(500);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<double>(i);
  const Indices whole = weighted_order(weights, 499, 8, 2);
  EXPECT_EQ(weighted_order(weights, 20, 8, 2), Indices(whole.begin(), whole.begin() + 20));
  EXPECT_THROW(weighted_order(weights, 500, 8, 2), Error);
}

}  // namespace
}  // namespace millrace::samplers
