// TorchGenerator: torch's generator for the CPU: the draws that it makes, and its state in torch's own form.
//
// torch.Generator().manual_seed(seed) is a MersenneTwister seeded with the low 32 bits. 64 bits
// are two words, the high one first. A value type of 2.5 kB; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "samplers/mersenne_twister.h"

namespace millrace::samplers {

class TorchGenerator {
 public:
  // Bytes of Generator.get_state().
  static constexpr size_t kStateBytes = 5056;

  explicit TorchGenerator(uint64_t seed);

  // torch.empty((), dtype=torch.int64).random_(generator=self): the draw that gives an iterator of torch its
  // base seed.
  int64_t base_seed();
  uint32_t random();    // a word
  uint64_t random64();  // two of them
  double uniform();     // 53 bits of random64(), from 0 on and below 1
  // What the draws that follow come from; see RandomPermutation.
  const MersenneTwister& engine() const { return engine_; }
  void discard(int64_t words);

  std::vector<uint8_t> state() const;
  // Throws Error(invalid_argument) for bytes that are no state of a generator for the CPU.
  void set_state(std::span<const uint8_t> bytes);

 private:
  uint64_t seed_;
  MersenneTwister engine_;
  bool fresh_ = true;  // torch writes a state without a draw a little differently from one after 624 draws
};

}  // namespace millrace::samplers
