#include "tuning/repeats.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace millrace::tuning {

uint64_t mix_hash(uint64_t a, uint64_t b) {
  // A product of 128 bits folded to 64 spreads every bit of both; the constants are odd numbers of random
  // bits.
  const auto product =
      static_cast<unsigned __int128>(a ^ 0x9e3779b97f4a7c15ull) * (b ^ 0xd1b54a32d192ed03ull);
  const uint64_t folded = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  return folded ^ std::rotl(folded, 29) ^ std::rotl(a, 17);
}

void Repeats::start_epoch() {
  std::fill(table_.begin(), table_.end(), 0);
  ring_.clear();
  next_ = 0;
}

bool Repeats::add(uint64_t hash) {
  ++samples;
  const uint64_t spread = mix_hash(hash, 0x2545f4914f6cdd1dull);
  const size_t place = spread >> 52;  // 12 bits
  const auto rank = static_cast<uint8_t>(std::countl_zero((spread << 12) | (uint64_t{1} << 11)) + 1);
  registers[place] = std::max(registers[place], rank);

  if (table_.empty()) table_.resize(kTable);
  uint64_t& last = table_[hash & (kTable - 1)];
  repeated += last == hash;
  last = hash;

  const bool again = std::find(ring_.begin(), ring_.end(), hash) != ring_.end();
  if (ring_.size() == kRecent) {
    recent += again;
    comparisons += kRecent;
  }
  if (ring_.size() < kRecent) {
    ring_.push_back(hash);
  } else {
    ring_[next_] = hash;
    next_ = (next_ + 1) % kRecent;
  }
  return again;
}

void Repeats::merge(const Repeats& other) {
  samples += other.samples;
  repeated += other.repeated;
  recent += other.recent;
  comparisons += other.comparisons;
  for (size_t i = 0; i < kRegisters; ++i) registers[i] = std::max(registers[i], other.registers[i]);
}

double Repeats::distinct() const {
  constexpr double m = kRegisters;
  double sum = 0;
  int empty = 0;
  for (const uint8_t rank : registers) {
    sum += std::ldexp(1.0, -rank);
    empty += rank == 0;
  }
  const double estimate = 0.7213 / (1 + 1.079 / m) * m * m / sum;
  return estimate <= 2.5 * m && empty > 0 ? m * std::log(m / empty)
                                          : estimate;  // few: by the registers that are empty
}

}  // namespace millrace::tuning
