#include "samplers/mersenne_twister.h"

#include <algorithm>

namespace millrace::samplers {
namespace {

constexpr size_t kShift = 397;

// Makes a word of the next block from two neighbours of this block and the word kShift past the first.
uint32_t twisted(uint32_t first, uint32_t second, uint32_t behind) {
  const uint32_t both = (first & 0x80000000u) | (second & 0x7FFFFFFFu);
  return behind ^ both >> 1 ^ (-(both & 1u) & 0x9908B0DFu);
}

}  // namespace

MersenneTwister::MersenneTwister(uint32_t seed) : next_(kWords) {
  words_[0] = seed;
  for (size_t i = 1; i < kWords; ++i) {
    const uint32_t before = words_[i - 1];
    words_[i] = 1812433253u * (before ^ before >> 30) + static_cast<uint32_t>(i);
  }
}

MersenneTwister::MersenneTwister(std::span<const uint32_t, kWords> words, size_t next) : next_(next) {
  std::copy(words.begin(), words.end(), words_.begin());
}

// In loops in which no word depends on one less than a vector away.
void MersenneTwister::renew() {
  constexpr size_t kBehind = kWords - kShift;
  uint32_t* const w = words_.data();
  for (size_t i = 0; i < kBehind; ++i) w[i] = twisted(w[i], w[i + 1], w[i + kShift]);
  for (size_t i = kBehind; i < kWords - 1; ++i) w[i] = twisted(w[i], w[i + 1], w[i - kBehind]);
  w[kWords - 1] = twisted(w[kWords - 1], w[0], w[kShift - 1]);
  next_ = 0;
}

void MersenneTwister::fill(std::span<uint32_t> out) {
  while (!out.empty()) {
    if (next_ == kWords) renew();
    const size_t count = std::min(out.size(), kWords - next_);
    const uint32_t* const from = words_.data() + next_;
    for (size_t i = 0; i < count; ++i) out[i] = tempered(from[i]);
    next_ += count;
    out = out.subspan(count);
  }
}

void MersenneTwister::discard(uint64_t count) {
  while (count > kWords - next_) {
    count -= kWords - next_;
    renew();
  }
  next_ += count;
}

}  // namespace millrace::samplers
