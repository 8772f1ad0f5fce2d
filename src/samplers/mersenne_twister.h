// MersenneTwister: the 32-bit generator of Matsumoto and Nishimura (1998), mt19937, which torch's generator
// for the CPU is. The words are those of std::mt19937.
//
// That one keeps its words in 64 bits each and makes them one by one; here blocks of 624 are made in vector
// registers, and words that are passed over are not tempered: a tenth of the time, and less. A value type of
// 2.5 kB; one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace::samplers {

class MersenneTwister {
 public:
  static constexpr size_t kWords = 624;

  explicit MersenneTwister(uint32_t seed);
  // From a state: the words of a block, of which `next` were given out (0 to 624).
  MersenneTwister(std::span<const uint32_t, kWords> words, size_t next);

  uint32_t operator()() {
    if (next_ == kWords) renew();
    return tempered(words_[next_++]);
  }
  void fill(std::span<uint32_t> out);
  void discard(uint64_t count);

  const std::array<uint32_t, kWords>& words() const { return words_; }
  size_t next() const { return next_; }

  bool operator==(const MersenneTwister&) const = default;

 private:
  static uint32_t tempered(uint32_t word) {
    word ^= word >> 11;
    word ^= word << 7 & 0x9D2C5680u;
    word ^= word << 15 & 0xEFC60000u;
    return word ^ word >> 18;
  }
  void renew();

  std::array<uint32_t, kWords> words_;
  size_t next_;
};

}  // namespace millrace::samplers
