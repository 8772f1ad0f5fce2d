// IndexReader: one rank's indices of one epoch, from any position on.
//
// What is read ahead and not used is lost to it; what position() says holds for the indices read so far. One
// thread at a time.
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

// What follows is drawn from a generator, from the first index that is read on. `before`: the generator's
// state before the draws of an epoch that is resumed, as text; the generator goes back there, so that later
// epochs are those of the run that was left.

// `length` numbers of permutations of 0 .. n - 1, one after the other, from position `start` on, as torch's
// RandomSampler draws them from a generator of its own: each at its first index, and another one, which
// nobody sees, behind the end of whole ones. More than 2^31 samples, each once, are computed, not drawn, as
// in Python.
std::unique_ptr<IndexReader> random_reader(int64_t n, int64_t length, int64_t start,
                                           samplers::TorchGenerator& generator, std::string before);

// The next block of indices, drawn when its first one is read; an empty one: there are no more.
using DrawBlock = std::function<std::vector<int64_t>(samplers::TorchGenerator&)>;
std::unique_ptr<IndexReader> block_reader(DrawBlock draw, int64_t start, samplers::TorchGenerator& generator,
                                          std::string before);

// Steps that each of `ranks` ranks still has when all of them together take `entries` of an order at a step.
int64_t steps_left(int64_t length, int64_t start, int64_t entries, bool drop_last);

}  // namespace millrace::api
