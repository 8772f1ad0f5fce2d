#include "collate/chunk_shares.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <string>

#include "millrace/error.h"

namespace millrace::collate {
namespace {

// Finds chunks of samples: near where they would be if all chunks were as long, which most are, else by
// bisection.
class ChunkFinder {
 public:
  explicit ChunkFinder(std::span<const int64_t> starts) : starts_(starts) {
    const auto samples = static_cast<double>(starts.back() - starts.front());
    chunks_per_sample_ = samples > 0 ? static_cast<double>(starts.size() - 1) / samples : 0;
  }

  size_t operator()(int64_t index) const {
    if (index < starts_.front() || index >= starts_.back())
      throw Error(ErrorKind::out_of_range, "index " + std::to_string(index) + " lies in no chunk");
    const double place = static_cast<double>(index - starts_.front()) * chunks_per_sample_;
    const size_t guess = std::min(static_cast<size_t>(place), starts_.size() - 2);
    if (starts_[guess] <= index && index < starts_[guess + 1]) return guess;
    return static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), index) - starts_.begin()) - 1;
  }

 private:
  std::span<const int64_t> starts_;
  double chunks_per_sample_ = 0;
};

}  // namespace

ChunkShares share_by_chunk(std::span<const int64_t> indices, std::span<const int64_t> starts) {
  const ChunkFinder find(starts);
  struct Found {
    int64_t chunk, samples;
  };
  std::vector<Found> found;                  // in the order in which they were met
  std::vector<uint32_t> of(indices.size());  // of each sample, its chunk's place there
  constexpr auto kNone = std::numeric_limits<uint32_t>::max();
  // A chunk's place in `found`, by the last bits of the chunk's number, or in the next free entry.
  std::vector<uint32_t> table(std::bit_ceil(2 * std::min(indices.size(), starts.size()) + 1), kNone);
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto chunk = static_cast<int64_t>(find(indices[i]));
    size_t at = static_cast<size_t>(chunk) & (table.size() - 1);
    while (table[at] != kNone && found[table[at]].chunk != chunk) at = (at + 1) & (table.size() - 1);
    if (table[at] == kNone) {
      table[at] = static_cast<uint32_t>(found.size());
      found.push_back({chunk, 0});
    }
    ++found[table[at]].samples;
    of[i] = table[at];
  }
  std::vector<uint32_t> order(found.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&found](uint32_t a, uint32_t b) { return found[a].chunk < found[b].chunk; });
  ChunkShares result;
  result.places.resize(indices.size());
  result.rows.resize(indices.size());
  std::vector<int64_t> next(found.size());
  int64_t end = 0;
  for (const uint32_t slot : order) {
    result.chunks.push_back(found[slot].chunk);
    result.bounds.push_back(end);
    next[slot] = end;
    end += found[slot].samples;
  }
  result.bounds.push_back(end);
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto at = static_cast<size_t>(next[of[i]]++);
    result.places[at] = static_cast<int64_t>(i);
    result.rows[at] = indices[i] - starts[static_cast<size_t>(found[of[i]].chunk)];
    if (i > 0 && indices[i] == indices[i - 1] + 1) ++result.successors;
  }
  return result;
}

}  // namespace millrace::collate
