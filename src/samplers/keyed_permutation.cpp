#include "samplers/keyed_permutation.h"

#include <algorithm>
#include <bit>
#include <string>

#include "millrace/error.h"
#include "samplers/counter_draws.h"

namespace millrace::samplers {
namespace {

constexpr int64_t kLargest = int64_t{1} << 62;

// The upper bits of the result are the random ones.
inline uint64_t scramble(uint64_t half, uint64_t key) {
  uint64_t h = (half ^ key) * 0xFF51AFD7ED558CCDull;
  h = (h ^ (h >> 32)) * 0xC4CEB9FE1A85EC53ull;
  return h ^ (h << 29);
}

}  // namespace

KeyedPermutation::KeyedPermutation(int64_t n, uint64_t seed, uint64_t epoch, uint64_t stream) : size_(n) {
  if (n < 0 || n > kLargest)
    throw Error(ErrorKind::invalid_argument,
                "a keyed permutation has 0 to 2^62 elements, not " + std::to_string(n));
  const int bits = std::max(2, 64 - std::countl_zero(static_cast<uint64_t>(std::max<int64_t>(n, 1) - 1)));
  const int high_bits = bits / 2;
  low_bits_ = bits - high_bits;
  high_shift_ = 64 - high_bits;
  low_shift_ = 64 - low_bits_;
  rounds_ = bits > 16 ? 8 : bits > 8 ? 16 : kRounds;  // a round of few bits mixes less
  const auto [first, second] = CounterDraws(seed, epoch, DrawsFor::permutation, stream).at(0);
  for (int i = 0; i < rounds_; ++i) keys_[i] = mix64(first + static_cast<uint64_t>(i) * (second | 1));
}

// Several at once: each is a chain of multiplications that wait for one another.
template <int lanes>
void KeyedPermutation::step(uint64_t* x) const {
  uint64_t high[lanes], low[lanes];
  for (int k = 0; k < lanes; ++k) {
    high[k] = x[k] >> low_bits_;
    low[k] = x[k] & (~uint64_t{0} >> low_shift_);
  }
  for (int round = 0; round < rounds_; round += 2) {
    for (int k = 0; k < lanes; ++k) high[k] ^= scramble(low[k], keys_[round]) >> high_shift_;
    for (int k = 0; k < lanes; ++k) low[k] ^= scramble(high[k], keys_[round + 1]) >> low_shift_;
  }
  for (int k = 0; k < lanes; ++k) x[k] = high[k] << low_bits_ | low[k];
}

int64_t KeyedPermutation::at(int64_t position) const {
  if (size_ < 2) return position;
  auto x = static_cast<uint64_t>(position);
  do {
    step<1>(&x);
  } while (x >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(x);
}

void KeyedPermutation::at(std::span<const int64_t> positions, std::span<int64_t> out) const {
  for (const int64_t position : positions)
    if (position < 0 || position >= size_)
      throw Error(ErrorKind::out_of_range, "a permutation of " + std::to_string(size_) +
                                               " elements has no position " + std::to_string(position));
  constexpr size_t kLanes = 4;
  const auto n = static_cast<uint64_t>(size_);
  const size_t count = positions.size();
  if (size_ < 2 || count < kLanes) {
    for (size_t i = 0; i < count; ++i) out[i] = at(positions[i]);
    return;
  }
  // A lane that is done takes the next position, so that all stay busy however long each walks.
  std::array<uint64_t, kLanes> x;
  std::array<size_t, kLanes> owner;
  for (size_t k = 0; k < kLanes; ++k) x[k] = static_cast<uint64_t>(positions[k]), owner[k] = k;
  for (size_t next = kLanes; next < count;) {
    step<kLanes>(x.data());
    for (size_t k = 0; k < kLanes; ++k) {
      if (x[k] >= n || owner[k] == count) continue;
      out[owner[k]] = static_cast<int64_t>(x[k]);
      owner[k] = next < count ? next++ : count;
      if (owner[k] < count) x[k] = static_cast<uint64_t>(positions[owner[k]]);
    }
  }
  for (size_t k = 0; k < kLanes; ++k)
    if (owner[k] < count) out[owner[k]] = at(positions[owner[k]]);
}

}  // namespace millrace::samplers
