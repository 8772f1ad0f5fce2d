// Which samples of a batch lie in which chunk of the data, so that each chunk is looked at once. Any thread;
// a few ns per sample.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace millrace::collate {

// The samples of a batch, sorted by chunk, those of a chunk in their order: places[bounds[s] .. bounds[s+1])
// are where those of chunks[s] stand in the batch, and the same part of `rows` are their rows in that chunk.
// Chunks rise.
struct ChunkShares {
  std::vector<int64_t> chunks, bounds, places, rows;
  size_t successors = 0;  // samples behind which the batch has the next one of the data
};

// `starts`: the first sample of each chunk, and behind the last; rising, at least one. Throws
// Error(out_of_range) for an index that lies in no chunk.
ChunkShares share_by_chunk(std::span<const int64_t> indices, std::span<const int64_t> starts);

}  // namespace millrace::collate
