// KeyedWords: random words that are a function of a key, which is a text, and of a position; those of
// millrace.datasets' streams in Python (flow.py, Draws).
//
// The key's BLAKE2b of 16 bytes (Aumasson and others, 2013) is the key of Philox4x64-10 (Salmon and others,
// SC 2011). Word i is in block number i / 4 + 1, as numpy.random.Philox counts. A value type; any thread,
// each its own.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace millrace::samplers {

class KeyedWords {
 public:
  // Error(invalid_argument) for more than 128 bytes, which is one block of the hash.
  explicit KeyedWords(std::string_view key);

  uint64_t word(uint64_t position);                 // about 2 ns where positions rise
  uint64_t below(uint64_t position, uint64_t end);  // 0 .. end - 1

 private:
  std::array<uint64_t, 2> key_;
  std::array<uint64_t, 4> block_{};
  uint64_t number_ = 0;  // of the block; none has 0
};

}  // namespace millrace::samplers
