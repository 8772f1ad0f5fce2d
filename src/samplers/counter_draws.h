// CounterDraws: random bits for every position of an order, as a function of (seed, epoch, what for, stream,
// position).
//
// What a sampler of ours draws depends on nothing else, so seeking is free and ranks agree without talking.
// Philox's words (base/philox.h); about 10 ns per position. mix64: a hash where many keys are needed and
// Philox would cost too much.
#pragma once

#include <cstdint>

#include "base/philox.h"

namespace millrace::samplers {

// The finaliser of MurmurHash3 (Appleby 2011): a bijection in which every bit of x changes each bit of the
// result half the time.
inline uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCDull;
  x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53ull;
  return x ^ (x >> 33);
}

// Scales 64 random bits to a number of 0 .. bound-1. Uneven by less than bound / 2^64.
inline uint64_t scaled(uint64_t bits, uint64_t bound) {
  __extension__ using u128 = unsigned __int128;
  return static_cast<uint64_t>((static_cast<u128>(bits) * bound) >> 64);
}

// Above the numbers of transforms (Philox's `op`), so that no sampler shares a stream with a pixel.
enum class DrawsFor : uint32_t { permutation = 0x5A000001, alias, order, buffer, ties, sizes };

class CounterDraws {
 public:
  CounterDraws(uint64_t seed, uint64_t epoch, DrawsFor purpose, uint64_t stream = 0) {
    base::Philox words({seed, epoch, static_cast<int64_t>(stream), 0}, static_cast<uint32_t>(purpose));
    key_[0] = words.next_u32();
    key_[1] = words.next_u32();
  }

  struct Pair {
    uint64_t first, second;
  };
  Pair at(uint64_t position) const {
    const auto w = base::Philox::block(
        {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), 0, 0}, key_);
    return {uint64_t{w[0]} << 32 | w[1], uint64_t{w[2]} << 32 | w[3]};
  }

 private:
  std::array<uint32_t, 2> key_;
};

// 53 random bits as a number in (0, 1).
inline double open_unit(uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1.0p-53; }

}  // namespace millrace::samplers
