#include "samplers/torch_draws.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace millrace::samplers {
namespace {

constexpr int64_t kTwoWords = int64_t{1} << 28;  // from here on one word would prefer some numbers too much
constexpr int64_t kSortedBelow = 64;  // torch sorts as far as it must when it takes fewer than one in so many

std::vector<int64_t> by_sums(std::span<const double> weights, int64_t count, TorchGenerator& generator) {
  std::vector<double> sums;
  sums.reserve(weights.size());
  double sum = 0;
  for (const double weight : weights) sums.push_back(sum += weight);
  for (double& part : sums) part /= sum;
  sums.back() = 1;
  std::vector<int64_t> drawn(static_cast<size_t>(count));
  for (int64_t& index : drawn) {
    const double number = generator.uniform();
    size_t low = 0, high = sums.size();
    while (low < high) {  // as torch halves it: sums that overflowed are in no order
      const size_t middle = low + (high - low) / 2;
      if (sums[middle] < number)
        low = middle + 1;
      else
        high = middle;
    }
    index = static_cast<int64_t>(low);
  }
  return drawn;
}

std::vector<int64_t> by_race(std::span<const double> weights, int64_t count, TorchGenerator& generator) {
  using Runner = std::pair<double, int64_t>;
  std::vector<Runner> runners;
  runners.reserve(weights.size());
  for (const double weight : weights)
    runners.emplace_back(weight / -std::log1p(-generator.uniform()), std::ssize(runners));
  const auto before = [](const Runner& a, const Runner& b) {
    return (std::isnan(a.first) && !std::isnan(b.first)) || a.first > b.first;
  };
  const auto end = runners.begin() + count;
  if (count == 1) {
    std::iter_swap(runners.begin(), std::min_element(runners.begin(), runners.end(), before));
  } else if (count <= std::ssize(runners) / kSortedBelow) {
    std::partial_sort(runners.begin(), end, runners.end(), before);
  } else {
    std::nth_element(runners.begin(), end - 1, runners.end(), before);
    std::sort(runners.begin(), end - 1, before);
  }
  std::vector<int64_t> drawn;
  drawn.reserve(static_cast<size_t>(count));
  for (auto runner = runners.begin(); runner != end; ++runner) drawn.push_back(runner->second);
  return drawn;
}

}  // namespace

std::vector<int64_t> randint(int64_t n, int64_t count, TorchGenerator& generator) {
  const auto range = static_cast<uint64_t>(n);
  std::vector<int64_t> drawn(static_cast<size_t>(count));
  for (int64_t& number : drawn)
    number = static_cast<int64_t>((n < kTwoWords ? generator.random() : generator.random64()) % range);
  return drawn;
}

std::vector<int64_t> multinomial(std::span<const double> weights, int64_t count, bool replacement,
                                 TorchGenerator& generator) {
  if (count == 0) return {};
  return replacement && count > 1 ? by_sums(weights, count, generator) : by_race(weights, count, generator);
}

}  // namespace millrace::samplers
