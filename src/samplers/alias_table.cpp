#include "samplers/alias_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "millrace/error.h"

namespace millrace::samplers {
namespace {

double checked_sum(std::span<const double> weights) {
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] < 0)
      throw Error(ErrorKind::invalid_argument, "weights are finite numbers of 0 or more, but weight " +
                                                   std::to_string(i) + " is " + std::to_string(weights[i]));
    sum += weights[i];
  }
  if (!std::isfinite(sum) || sum <= 0)
    throw Error(ErrorKind::invalid_argument, "the sum of the weights is " + std::to_string(sum) +
                                                 "; it must be finite, and at least one weight above 0");
  return sum;
}

}  // namespace

AliasTable::AliasTable(std::span<const double> weights, uint64_t seed, uint64_t epoch)
    : columns_(weights.size()), draws_(seed, epoch, DrawsFor::alias) {
  const double scale = static_cast<double>(weights.size()) / checked_sum(weights);
  // Columns below their share are filled up from those above; what rounding leaves over keeps all of its own.
  std::vector<int64_t> small, large;
  for (size_t i = 0; i < weights.size(); ++i) {
    columns_[i].keep = weights[i] * scale;
    columns_[i].alias = static_cast<int64_t>(i);
    (columns_[i].keep < 1 ? small : large).push_back(static_cast<int64_t>(i));
  }
  while (!small.empty() && !large.empty()) {
    Column& low = columns_[static_cast<size_t>(small.back())];
    Column& high = columns_[static_cast<size_t>(large.back())];
    low.alias = large.back();
    high.keep = high.keep + low.keep - 1;
    small.pop_back();
    if (high.keep < 1) {
      small.push_back(large.back());
      large.pop_back();
    }
  }
  for (const auto& rest : {small, large})
    for (const int64_t i : rest)
      if (weights[static_cast<size_t>(i)] > 0) columns_[static_cast<size_t>(i)].keep = 1;
  // A category of weight 0 must never come, not even when rounding left it over.
  const auto heaviest = std::max_element(weights.begin(), weights.end()) - weights.begin();
  for (size_t i = 0; i < weights.size(); ++i)
    if (weights[i] == 0 && columns_[i].alias == static_cast<int64_t>(i)) columns_[i] = {0, heaviest};
}

void AliasTable::at(std::span<const int64_t> positions, std::span<int64_t> out) const {
  constexpr size_t kAhead = 16;  // columns that are fetched together: in a big table each is a cache miss
  std::array<double, kAhead> coins;
  for (size_t begin = 0; begin < positions.size(); begin += kAhead) {
    const size_t count = std::min(kAhead, positions.size() - begin);
    for (size_t j = 0; j < count; ++j) {
      const auto [place, coin] = draws_.at(static_cast<uint64_t>(positions[begin + j]));
      out[begin + j] = static_cast<int64_t>(scaled(place, columns_.size()));
      coins[j] = open_unit(coin);
      __builtin_prefetch(&columns_[static_cast<size_t>(out[begin + j])]);
    }
    for (size_t j = 0; j < count; ++j)
      if (const Column& column = columns_[static_cast<size_t>(out[begin + j])]; coins[j] >= column.keep)
        out[begin + j] = column.alias;
  }
}

std::vector<int64_t> weighted_order(std::span<const double> weights, int64_t count, uint64_t seed,
                                    uint64_t epoch) {
  checked_sum(weights);
  const CounterDraws draws(seed, epoch, DrawsFor::order);
  std::vector<std::pair<double, int64_t>> arrivals;
  for (size_t i = 0; i < weights.size(); ++i)
    if (weights[i] > 0)
      arrivals.emplace_back(-std::log(open_unit(draws.at(i).first)) / weights[i], static_cast<int64_t>(i));
  if (count < 0 || count > static_cast<int64_t>(arrivals.size()))
    throw Error(ErrorKind::invalid_argument, "cannot draw " + std::to_string(count) +
                                                 " samples without replacement: " +
                                                 std::to_string(arrivals.size()) + " weights are above 0");
  const auto end = arrivals.begin() + count;
  std::nth_element(arrivals.begin(), end, arrivals.end());
  std::sort(arrivals.begin(), end);
  std::vector<int64_t> order;
  order.reserve(static_cast<size_t>(count));
  for (auto it = arrivals.begin(); it != end; ++it) order.push_back(it->second);
  return order;
}

}  // namespace millrace::samplers
