// What tests of randomness share: whether counts look like draws from a distribution. Seeds are fixed, so no
// test fails by chance.
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace millrace::samplers {

// Pearson's statistic in standard deviations from its mean: beyond 5 is no chance.
inline double chi_square_deviation(const std::vector<int64_t>& counts, const std::vector<double>& weights) {
  const double draws = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  double statistic = 0;
  int freedom = -1;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = draws * weights[i] / sum;
    if (expected == 0) continue;
    statistic +=
        (static_cast<double>(counts[i]) - expected) * (static_cast<double>(counts[i]) - expected) / expected;
    ++freedom;
  }
  return (statistic - freedom) / std::sqrt(2.0 * freedom);
}

inline double uniform_deviation(const std::vector<int64_t>& counts) {
  return chi_square_deviation(counts, std::vector<double>(counts.size(), 1.0));
}

inline std::vector<int64_t> first_numbers(int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  return numbers;
}

}  // namespace millrace::samplers
