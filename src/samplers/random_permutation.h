// RandomPermutation: the numbers 0 .. n-1 in the order of torch.randperm(n, generator=torch.Generator().manual_seed(seed)).
//
// Drawn as they are taken: torch's Fisher-Yates walks forwards, so element i is final after step i. From 2^32 / 20 elements on
// torch uses another algorithm (inside-out, 64-bit draws) in which none is final before the end; then all are drawn at once.
// Memory: 8 bytes per element. Its state is (n, seed, position); seek() forwards draws up to there, backwards it is free.
// One thread at a time.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace millrace {

class RandomPermutation {
 public:
  RandomPermutation(int64_t n, uint64_t seed);  // throws Error(invalid_argument) for n < 0

  // Fills `out` with the next elements, fewer at the end; returns how many.
  size_t take(std::span<int64_t> out);
  void seek(int64_t position);  // throws Error(out_of_range) outside 0 .. n

  int64_t size() const { return static_cast<int64_t>(order_.size()); }
  int64_t position() const { return position_; }
  uint64_t seed() const { return seed_; }

 private:
  void draw_until(int64_t end);  // elements before `end` become final

  uint64_t seed_;
  std::mt19937 engine_;  // torch's engine too, seeded with the low 32 bits
  std::vector<int64_t> order_;
  int64_t drawn_ = 0, position_ = 0;  // final elements; taken elements
};

}  // namespace millrace
