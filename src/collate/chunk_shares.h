// Which samples of a batch lie in which chunk of the data, so that each chunk is looked at once. Any thread;
// a few ns per sample.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace millrace::collate {

// The samples of a batch, sorted by chunk, in batch order within a chunk. The samples of chunks[s] have the
// places places[bounds[s] .. bounds[s+1]) in the batch; the same part of `rows` has their rows in that chunk.
// `chunks` rises.
struct ChunkShares {
  std::vector<int64_t> chunks, bounds, places, rows;
  size_t successors = 0;  // samples of the batch with an index one above that of the sample before
};

// `starts`: the first sample of each chunk, then the end of the last one; rising, at least one entry. Throws
// Error(out_of_range) for an index that lies in no chunk.
ChunkShares share_by_chunk(std::span<const int64_t> indices, std::span<const int64_t> starts);

}  // namespace millrace::collate
