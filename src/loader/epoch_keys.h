// EpochKeys: from submitted indices to the keys of their samples.
//
// Negative indices count from the end; an index that came before in this epoch gets the next occurrence
// number, so that a sampler with replacement sees differently augmented copies. Counting follows the order of
// submission, hence is the same for any number of threads.
// Memory: 4 bytes per sample of the dataset, from the first index on. One thread.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace millrace::loader {

// A `size` for samples of streams: any index from 0 on comes once, so nothing is counted.
inline constexpr int64_t kTickets = std::numeric_limits<int64_t>::max();

struct RowKey {
  int64_t index = 0;  // outside [0, size): what the user gave, for the message
  uint32_t occurrence = 0;
};

class EpochKeys {
 public:
  explicit EpochKeys(int64_t size) : size_(size) {}

  void restart();
  std::vector<RowKey> resolve(std::span<const int64_t> indices);

 private:
  int64_t size_;
  std::vector<uint32_t> seen_;  // empty until an index comes
};

}  // namespace millrace::loader
