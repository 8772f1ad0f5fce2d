#include "base/xxh64.h"

#include <bit>
#include <cstring>

namespace millrace::base {
namespace {

constexpr uint64_t k1 = 0x9E3779B185EBCA87u, k2 = 0xC2B2AE3D27D4EB4Fu, k3 = 0x165667B19E3779F9u,
                   k4 = 0x85EBCA77C2B2AE63u, k5 = 0x27D4EB2F165667C5u;

template <class Word>
uint64_t word(const uint8_t* at) {
  Word value;
  std::memcpy(&value, at, sizeof value);
  static_assert(std::endian::native == std::endian::little);
  return value;
}

uint64_t round(uint64_t lane, uint64_t input) { return std::rotl(lane + input * k2, 31) * k1; }

uint64_t merged(uint64_t hash, uint64_t lane) { return (hash ^ round(0, lane)) * k1 + k4; }

}  // namespace

uint64_t xxh64(std::span<const uint8_t> bytes) noexcept {
  const uint8_t* at = bytes.data();
  size_t left = bytes.size();
  uint64_t hash = k5;
  if (left >= 32) {
    uint64_t a = k1 + k2, b = k2, c = 0, d = uint64_t{0} - k1;
    for (; left >= 32; left -= 32, at += 32) {
      a = round(a, word<uint64_t>(at));
      b = round(b, word<uint64_t>(at + 8));
      c = round(c, word<uint64_t>(at + 16));
      d = round(d, word<uint64_t>(at + 24));
    }
    hash = std::rotl(a, 1) + std::rotl(b, 7) + std::rotl(c, 12) + std::rotl(d, 18);
    for (const uint64_t lane : {a, b, c, d}) hash = merged(hash, lane);
  }
  hash += bytes.size();
  for (; left >= 8; left -= 8, at += 8) hash = std::rotl(hash ^ round(0, word<uint64_t>(at)), 27) * k1 + k4;
  if (left >= 4) {
    hash = std::rotl(hash ^ (word<uint32_t>(at) * k1), 23) * k2 + k3;
    left -= 4;
    at += 4;
  }
  for (; left > 0; --left, ++at) hash = std::rotl(hash ^ (*at * k5), 11) * k1;
  hash = (hash ^ (hash >> 33)) * k2;
  hash = (hash ^ (hash >> 29)) * k3;
  return hash ^ (hash >> 32);
}

}  // namespace millrace::base
