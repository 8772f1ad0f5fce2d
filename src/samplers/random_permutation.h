// RandomPermutation: the numbers 0 .. n-1 in the order of torch.randperm(n,
// generator=torch.Generator().manual_seed(seed)), and after it, from position n on, the next permutation
// that the same generator would give, and so on.
//
// Drawn as far as it is asked for: torch's Fisher-Yates walks forwards, so element i is final after step i.
// From 2^32 / 20 elements on torch uses another algorithm (inside-out, 64-bit draws) in which none is final
// before the end; then all are drawn at the first call.
// Memory: 4 bytes per element (8 from 2^32 elements on) as they are touched, because a number is kept as its
// difference from its place: memory that the system hands out zeroed is the identity, so starting costs
// nothing.
// Backwards is free within a permutation; going back to an earlier one draws again from the first.
// One thread at a time.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "samplers/mersenne_twister.h"

namespace millrace::samplers {

class RandomPermutation {
 public:
  RandomPermutation(int64_t n, uint64_t seed);  // throws Error(invalid_argument) for n < 0
  // The same from the present state of `engine`, which does not change.
  RandomPermutation(int64_t n, const MersenneTwister& engine);

  static int64_t words(int64_t n);  // that one permutation takes from the generator

  // out[i] = the element at positions[i]. Throws Error(out_of_range) for a negative position, or any when n
  // is 0.
  void at(std::span<const int64_t> positions, std::span<int64_t> out);
  // The same of positions that follow each other, in half of the time: out[i] = the element at first + i.
  void read(int64_t first, std::span<int64_t> out);

  int64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  void check(int64_t position) const;
  template <class Place>
  void look_up(std::span<const int64_t> positions, std::span<int64_t> out);
  template <class Place>
  void read_on(int64_t first, std::span<int64_t> out);
  template <class Place>
  void draw_until(int64_t end);  // elements of this round before `end` become final
  template <class Place>
  void draw_all();
  template <class Place>
  void go_to_round(int64_t round);
  void start_round();

  int64_t size_;
  MersenneTwister start_;  // torch's generator, seeded with the low 32 bits
  MersenneTwister engine_;
  std::unique_ptr<void, Free> places_;
  int64_t round_ = 0, drawn_ = 0;  // which permutation; its elements that are final
};

}  // namespace millrace::samplers
