// ValueCounts: how often each whole number came; exactly while there are few, the frequent ones with a stated
// error when there are many.
//
// Up to twice `capacity` numbers are counted exactly. Beyond that, the count of the capacity-th most frequent
// is taken from all, and what has none left is dropped: Misra and Gries (1982), in the mergeable form of
// Agarwal et al., "Mergeable summaries" (PODS 2012). A true count is then between count and count + error(),
// and error() is at most total / capacity. Amortised constant time per number; the caller keeps threads
// apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace millrace::tuning {

class ValueCounts {
 public:
  explicit ValueCounts(size_t capacity = 4096) : capacity_(capacity) {}

  void add(int64_t value, uint64_t count = 1);
  void merge(const ValueCounts& other);
  void set(std::vector<std::pair<int64_t, uint64_t>> counts, uint64_t total,
           uint64_t error);  // what an earlier one had

  bool exact() const { return error_ == 0; }
  uint64_t error() const { return error_; }
  uint64_t total() const { return total_; }  // of all numbers, dropped ones too
  std::vector<std::pair<int64_t, uint64_t>> most_frequent(
      size_t limit) const;  // first the most frequent, of equals the smaller number

 private:
  void shrink();

  size_t capacity_;
  std::unordered_map<int64_t, uint64_t> counts_;
  uint64_t total_ = 0, error_ = 0;
};

}  // namespace millrace::tuning
