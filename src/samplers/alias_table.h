// AliasTable: draws with replacement by weight, each in constant time and a function of its position.
//
// Walker's alias method with the tables of Vose, "A linear algorithm for generating random numbers with a
// given distribution" (IEEE TSE 1991). 16 bytes per category. Immutable; any thread. weighted_order() is the
// draw without replacement.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "samplers/counter_draws.h"

namespace millrace::samplers {

class AliasTable {
 public:
  // Throws Error(invalid_argument) for no weights, one that is negative or not finite, or a sum that is zero
  // or not finite.
  AliasTable(std::span<const double> weights, uint64_t seed, uint64_t epoch);

  void at(std::span<const int64_t> positions, std::span<int64_t> out) const;

 private:
  struct Column {
    double keep = 1;  // probability of the column itself; else its alias
    int64_t alias = 0;
  };
  std::vector<Column> columns_;
  CounterDraws draws_;
};

// The first `count` categories of a draw one after the other without putting back, each with probability
// proportional to its weight among those left: the smallest of exponential variables divided by the weights
// (Efraimidis and Spirakis, IPL 2006). Throws as AliasTable does, and when fewer than `count` weights are
// above zero. O(n + count log count), 16 bytes per category meanwhile.
std::vector<int64_t> weighted_order(std::span<const double> weights, int64_t count, uint64_t seed,
                                    uint64_t epoch);

}  // namespace millrace::samplers
