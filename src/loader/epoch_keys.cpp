#include "loader/epoch_keys.h"

#include <algorithm>

namespace millrace::loader {

void EpochKeys::restart() { std::fill(seen_.begin(), seen_.end(), 0); }

std::vector<RowKey> EpochKeys::resolve(std::span<const int64_t> indices) {
  if (seen_.empty() && size_ != kTickets) seen_.resize(static_cast<size_t>(size_));
  std::vector<RowKey> keys;
  keys.reserve(indices.size());
  for (const int64_t given : indices) {
    const int64_t index = given < 0 ? given + size_ : given;
    if (index < 0 || index >= size_)
      keys.push_back({given, 0});
    else
      keys.push_back({index, size_ == kTickets ? 0 : seen_[static_cast<size_t>(index)]++});
  }
  return keys;
}

}  // namespace millrace::loader
