// IndexReader: one rank's indices of one epoch, from any position on.
//
// Indices that are read ahead and not used are lost; position() counts all indices read so far. One thread at
// a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "json/json_value.h"
#include "samplers/torch_generator.h"

namespace millrace::api {

// out[i] = the entry at positions[i] of a global order; `out` may not be `positions`.
using Order = std::function<void(std::span<const int64_t> positions, std::span<int64_t> out)>;

class IndexReader {
 public:
  virtual ~IndexReader() = default;
  // The next `count`, fewer only at the end; draws what torch's sampler would draw for them, and no more.
  virtual std::vector<int64_t> read(int64_t count) = 0;
  // Entries of the global order that all ranks together have taken.
  virtual int64_t position() const = 0;
  // The generator's state before the draws that made the order, as entries of the sampler's state; null
  // without draws.
  virtual json::Value origin() const { return {}; }
};

// `steps` positions start + rank, start + rank + count, ... of an order, past its end from its beginning
// again. `begin` is called for the first one.
std::unique_ptr<IndexReader> order_reader(std::function<Order()> begin, int64_t length, int64_t start,
                                          int64_t steps, int rank, int count);

// The readers below draw from a generator, beginning when the first index is read. `before`: the generator's
// state before the draws of a resumed epoch, as text; the generator goes back to that state, so that later
// epochs are those of the interrupted run.

// Reads `length` numbers of permutations of 0 .. n - 1, one after the other, from position `start` on, as
// torch's RandomSampler draws them from a generator of its own. Each permutation is drawn when its first
// index is read. If `length` ends with a whole permutation, reading its end draws one more, as torch does,
// and uses no index of it. More than 2^31 samples, each once, are computed, not drawn, as in Python.
std::unique_ptr<IndexReader> random_reader(int64_t n, int64_t length, int64_t start,
                                           samplers::TorchGenerator& generator, std::string before);

// The next block of indices, drawn when its first one is read; an empty one: there are no more.
using DrawBlock = std::function<std::vector<int64_t>(samplers::TorchGenerator&)>;
std::unique_ptr<IndexReader> block_reader(DrawBlock draw, int64_t start, samplers::TorchGenerator& generator,
                                          std::string before);

// Steps that each rank still has when all ranks together take `entries` of an order at a step.
int64_t steps_left(int64_t length, int64_t start, int64_t entries, bool drop_last);

}  // namespace millrace::api
