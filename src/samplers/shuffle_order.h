// ShuffleOrder: the positions 0 .. n-1 of a stream in the order in which a shuffle buffer gives them.
//
// The buffer holds the next `size` positions; each step gives out a random one, and the stream's next takes
// its place; at the end it empties. Which one is a function of (seed, epoch, step), so what the buffer holds
// at any step can be told without the steps before: the last steps that drew each place, found by walking
// backwards (about size * ln(size) steps of 10 ns, whatever the position). Forwards costs about 15 ns per
// step.
// Memory: 8 bytes per place.
// One thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "samplers/counter_draws.h"

namespace millrace::samplers {

class ShuffleOrder {
 public:
  // n = 2^62 means a stream with an end that is not known yet: as long as the end is far, the order is the
  // same for any n. Throws Error(invalid_argument) for n < 0 or size < 1.
  ShuffleOrder(int64_t n, int64_t size, uint64_t seed, uint64_t epoch);

  // out[i] = the position in the stream of the sample that comes out at step positions[i]; cheap for rising
  // steps.
  // Throws Error(out_of_range) outside 0 .. n-1.
  void at(std::span<const int64_t> positions, std::span<int64_t> out);
  // The samples that the buffer holds before step `step` (0 .. n), in no particular order.
  std::vector<int64_t> held(int64_t step);

  int64_t size() const { return n_; }

 private:
  void seek(int64_t step);
  int64_t next();

  int64_t n_, capacity_;
  CounterDraws draws_;
  std::vector<int64_t> places_;
  int64_t step_ = 0;
};

}  // namespace millrace::samplers
