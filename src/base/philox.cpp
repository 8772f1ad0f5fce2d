#include "base/philox.h"

#include "base/philox_rounds.h"

namespace millrace::base {
namespace {

// splitmix64's finaliser (Steele, Lea, Flood 2014): folds epoch and occurrence into the key, because index,
// op and block already fill the counter.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

}  // namespace

std::array<uint32_t, 4> Philox::block(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  uint32_t words[4] = {c[0], c[1], c[2], c[3]};
  philox_rounds(words, k[0], k[1]);
  return {words[0], words[1], words[2], words[3]};
}

Philox::Philox(const SampleKey& key, uint32_t op) {
  const uint64_t folded = mix(mix(key.seed) ^ mix(key.epoch) * 3 ^ mix(~uint64_t{key.occurrence}));
  const auto index = static_cast<uint64_t>(key.index);
  key_ = {static_cast<uint32_t>(folded), static_cast<uint32_t>(folded >> 32)};
  counter_ = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), op, 0};
}

uint32_t Philox::next_u32() {
  if (used_ == 4) {
    words_ = block(counter_, key_);
    ++counter_[3];
    used_ = 0;
  }
  return words_[used_++];
}

double Philox::uniform() {
  const uint64_t high = next_u32(), low = next_u32();
  return static_cast<double>((high << 21) ^ (low >> 11)) * 0x1.0p-53;
}

double Philox::uniform(double low, double high) { return low + (high - low) * uniform(); }

int64_t Philox::integer(int64_t low, int64_t high) {
  const auto range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const auto draw = [&] {
    const uint64_t a = next_u32();
    return a << 32 | next_u32();
  };
  __extension__ using u128 = unsigned __int128;
  u128 product = static_cast<u128>(draw()) * range;
  if (static_cast<uint64_t>(product) < range) {
    const uint64_t threshold = (0 - range) % range;
    while (static_cast<uint64_t>(product) < threshold) product = static_cast<u128>(draw()) * range;
  }
  return static_cast<int64_t>(static_cast<uint64_t>(low) +
                              static_cast<uint64_t>(product >> 64));  // unsigned: it may wrap
}

}  // namespace millrace::base
