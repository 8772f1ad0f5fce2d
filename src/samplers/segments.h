// ShardOrder and SegmentShuffle: orders of samples that lie in consecutive runs. Immutable; any thread.
//
// ShardOrder: the runs ("shards") in random order, each read from its beginning to its end. 16 bytes per run.
// SegmentShuffle: the runs in their order, each shuffled in itself. 8 bytes per run; a permutation is
// computed where it is needed. Both find a position's run at once when it is that of the position before, or
// runs are about as long; else by bisection.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace millrace::samplers {

class ShardOrder {
 public:
  ShardOrder(std::span<const int64_t> lengths, uint64_t seed,
             uint64_t epoch);  // throws Error(invalid_argument) for a negative one

  // out[i] = the sample at positions[i], counted through all shards. Throws Error(out_of_range) outside 0 ..
  // size()-1.
  void at(std::span<const int64_t> positions, std::span<int64_t> out) const;

  int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }

 private:
  std::vector<int64_t> ends_;    // of the shards in their random order
  std::vector<int64_t> shifts_;  // sample = position + shift
};

class SegmentShuffle {
 public:
  SegmentShuffle(std::span<const int64_t> lengths, uint64_t seed, uint64_t epoch);  // as ShardOrder

  void at(std::span<const int64_t> positions, std::span<int64_t> out) const;  // as ShardOrder

  int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }

 private:
  std::vector<int64_t> ends_;
  uint64_t seed_, epoch_;
};

}  // namespace millrace::samplers
