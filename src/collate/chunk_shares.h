// Which samples of a batch lie in which chunk of the data, so that each chunk is looked at once. Any thread; a few ns per sample.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

// Share s of a batch: its samples bounds[s] .. bounds[s+1], sorted by chunk, lie in chunks[s]. Chunks rise.
struct ChunkShares {
  std::vector<int64_t> chunks, bounds;
};

// `starts`: the first sample of each chunk, and behind the last; rising, at least one. Writes each sample's place in `indices` and its row
// in the chunk, sorted by chunk, those of a chunk in their order. Throws Error(out_of_range) for an index that lies in no chunk.
ChunkShares share_by_chunk(std::span<const int64_t> indices, std::span<const int64_t> starts, std::span<int64_t> places,
                           std::span<int64_t> rows);

}  // namespace millrace
