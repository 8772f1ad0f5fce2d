// Three streams of 8-byte steps side by side, for one alone waits for the instruction's latency of three
// cycles. What the first one found is then moved over the bytes of the second, as if these were zeros: a
// linear map of 32 bits, kept as tables.
#include "io/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace millrace::io {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// tables[k][byte]: what `byte` contributes with k bytes after it.
constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t byte = 0; byte < 256; ++byte)
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xff];
  return tables;
}

constexpr Tables kTables = make_tables();

#if defined(__x86_64__)
constexpr size_t kStream = 4096;  // bytes of each of the three

using Shift = std::array<std::array<uint32_t, 256>, 4>;

// shift[k][byte]: what a checksum's k-th byte becomes when kStream zeros follow.
constexpr Shift make_shift() {
  std::array<uint32_t, 32>
      map{};  // of single bits: the map of one zero byte, squared until it is that of kStream
  for (int bit = 0; bit < 32; ++bit) {
    const uint32_t crc = 1u << bit;
    map[static_cast<size_t>(bit)] = (crc >> 8) ^ kTables[0][crc & 0xff];
  }
  const auto apply = [&map](uint32_t crc) {
    uint32_t moved = 0;
    for (size_t bit = 0; crc != 0; ++bit, crc >>= 1)
      if (crc & 1) moved ^= map[bit];
    return moved;
  };
  for (size_t zeros = 1; zeros < kStream; zeros *= 2) {
    std::array<uint32_t, 32> twice{};
    for (size_t bit = 0; bit < 32; ++bit) twice[bit] = apply(map[bit]);
    map = twice;
  }
  Shift shift{};
  for (size_t k = 0; k < 4; ++k)
    for (uint32_t byte = 0; byte < 256; ++byte) shift[k][byte] = apply(byte << (8 * k));
  return shift;
}

constexpr Shift kShift = make_shift();

uint32_t moved_on(uint64_t crc) {
  return kShift[0][crc & 0xff] ^ kShift[1][(crc >> 8) & 0xff] ^ kShift[2][(crc >> 16) & 0xff] ^
         kShift[3][(crc >> 24) & 0xff];
}

uint64_t word_at(const uint8_t* at) {
  uint64_t word;
  std::memcpy(&word, at, 8);
  return word;
}

__attribute__((target("sse4.2"))) uint32_t crc32c_sse42(uint32_t before,
                                                        std::span<const uint8_t> bytes) noexcept {
  uint64_t crc = ~before;
  const uint8_t* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 3 * kStream; at += 3 * kStream, left -= 3 * kStream) {
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < kStream; i += 8) {
      crc = _mm_crc32_u64(crc, word_at(at + i));
      second = _mm_crc32_u64(second, word_at(at + kStream + i));
      third = _mm_crc32_u64(third, word_at(at + 2 * kStream + i));
    }
    crc = moved_on(moved_on(crc) ^ second) ^ third;
  }
  for (; left >= 8; at += 8, left -= 8) crc = _mm_crc32_u64(crc, word_at(at));
  auto crc32 = static_cast<uint32_t>(crc);
  for (; left > 0; ++at, --left) crc32 = _mm_crc32_u8(crc32, *at);
  return ~crc32;
}
#endif

}  // namespace

uint32_t crc32c_portable(uint32_t before, std::span<const uint8_t> bytes) noexcept {
  uint32_t crc = ~before;
  const uint8_t* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    const uint32_t low = crc ^ (at[0] | at[1] << 8 | at[2] << 16 | static_cast<uint32_t>(at[3]) << 24);
    crc = kTables[7][low & 0xff] ^ kTables[6][(low >> 8) & 0xff] ^ kTables[5][(low >> 16) & 0xff] ^
          kTables[4][low >> 24] ^ kTables[3][at[4]] ^ kTables[2][at[5]] ^ kTables[1][at[6]] ^
          kTables[0][at[7]];
  }
  for (; left > 0; ++at, --left) crc = (crc >> 8) ^ kTables[0][(crc ^ *at) & 0xff];
  return ~crc;
}

uint32_t crc32c(uint32_t before, std::span<const uint8_t> bytes) noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return crc32c_sse42(before, bytes);
#endif
  return crc32c_portable(before, bytes);
}

}  // namespace millrace::io
