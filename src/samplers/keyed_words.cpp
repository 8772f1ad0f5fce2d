#include "samplers/keyed_words.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>

#include "millrace/error.h"

namespace millrace::samplers {
namespace {

constexpr size_t kHashedAtOnce = 128;
constexpr std::array<uint64_t, 8> kStart{0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
                                         0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f,
                                         0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
// Which word of the block each step of a round takes; rounds 10 and 11 take those of 0 and 1.
constexpr uint8_t kOrder[10][16] = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
                                    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
                                    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
                                    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
                                    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
                                    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
                                    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
                                    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
                                    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
                                    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};
// The words that the eight mixtures of a round mix: columns, then diagonals.
constexpr uint8_t kMixed[8][4] = {{0, 4, 8, 12},  {1, 5, 9, 13},  {2, 6, 10, 14}, {3, 7, 11, 15},
                                  {0, 5, 10, 15}, {1, 6, 11, 12}, {2, 7, 8, 13},  {3, 4, 9, 14}};

// BLAKE2b of one block, without a key, 16 bytes long, as two words.
std::array<uint64_t, 2> hash_of(std::string_view text) {
  std::array<uint64_t, 16> block{};
  std::memcpy(block.data(), text.data(), text.size());
  std::array<uint64_t, 8> state = kStart;
  state[0] ^= 0x01010000 ^ 16;
  std::array<uint64_t, 16> mixed{};
  for (size_t i = 0; i < 8; ++i) mixed[i] = state[i], mixed[i + 8] = kStart[i];
  mixed[12] ^= text.size();
  mixed[14] = ~mixed[14];  // the last block
  for (size_t round = 0; round < 12; ++round) {
    for (size_t step = 0; step < 8; ++step) {
      uint64_t& a = mixed[kMixed[step][0]];
      uint64_t& b = mixed[kMixed[step][1]];
      uint64_t& c = mixed[kMixed[step][2]];
      uint64_t& d = mixed[kMixed[step][3]];
      a += b + block[kOrder[round % 10][2 * step]];
      d = std::rotr(d ^ a, 32);
      c += d;
      b = std::rotr(b ^ c, 24);
      a += b + block[kOrder[round % 10][2 * step + 1]];
      d = std::rotr(d ^ a, 16);
      c += d;
      b = std::rotr(b ^ c, 63);
    }
  }
  return {state[0] ^ mixed[0] ^ mixed[8], state[1] ^ mixed[1] ^ mixed[9]};
}

std::pair<uint64_t, uint64_t> product(uint64_t a, uint64_t b) {  // high, low
  __extension__ using u128 = unsigned __int128;
  const u128 whole = static_cast<u128>(a) * b;
  return {static_cast<uint64_t>(whole >> 64), static_cast<uint64_t>(whole)};
}

}  // namespace

KeyedWords::KeyedWords(std::string_view key) {
  if (key.size() > kHashedAtOnce)
    throw Error(ErrorKind::invalid_argument, "a key of random words has at most 128 bytes");
  key_ = hash_of(key);
}

uint64_t KeyedWords::word(uint64_t position) {
  if (const uint64_t number = position / 4 + 1; number != number_) {
    std::array<uint64_t, 2> key = key_;
    block_ = {number, 0, 0, 0};
    for (int round = 0; round < 10; ++round) {
      const auto [high, low] = product(0xD2E7470EE14C6C93, block_[0]);
      const auto [other_high, other_low] = product(0xCA5A826395121157, block_[2]);
      block_ = {other_high ^ block_[1] ^ key[0], other_low, high ^ block_[3] ^ key[1], low};
      key[0] += 0x9E3779B97F4A7C15;
      key[1] += 0xBB67AE8584CAA73B;
    }
    number_ = number;
  }
  return block_[position % 4];
}

uint64_t KeyedWords::below(uint64_t position, uint64_t end) { return product(word(position), end).first; }

}  // namespace millrace::samplers
