#include "tuning/value_counts.h"

#include <algorithm>

namespace millrace::tuning {

void ValueCounts::add(int64_t value, uint64_t count) {
  counts_[value] += count;
  total_ += count;
  if (counts_.size() > 2 * capacity_) shrink();
}

void ValueCounts::merge(const ValueCounts& other) {
  for (const auto& [value, count] : other.counts_) counts_[value] += count;
  total_ += other.total_;
  error_ += other.error_;
  if (counts_.size() > 2 * capacity_) shrink();
}

void ValueCounts::set(std::vector<std::pair<int64_t, uint64_t>> counts, uint64_t total, uint64_t error) {
  counts_.clear();
  for (const auto& [value, count] : counts) counts_[value] += count;
  total_ = total;
  error_ = error;
}

std::vector<std::pair<int64_t, uint64_t>> ValueCounts::most_frequent(size_t limit) const {
  std::vector<std::pair<int64_t, uint64_t>> found(counts_.begin(), counts_.end());
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  if (found.size() > limit) found.resize(limit);
  return found;
}

void ValueCounts::shrink() {
  std::vector<uint64_t> counts;
  counts.reserve(counts_.size());
  for (const auto& entry : counts_) counts.push_back(entry.second);
  std::nth_element(counts.begin(), counts.begin() + static_cast<ptrdiff_t>(capacity_), counts.end(),
                   std::greater<>());
  const uint64_t least = counts[capacity_];
  error_ += least;
  for (auto entry = counts_.begin(); entry != counts_.end();) {
    if (entry->second <= least) {
      entry = counts_.erase(entry);
    } else {
      entry->second -= least;
      ++entry;
    }
  }
}

}  // namespace millrace::tuning
