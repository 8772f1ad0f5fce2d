// xxh64: numbers that the xxhash package gives, for each way through the function, and one bit changed
// anywhere.
#include "base/xxh64.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace millrace::base {
namespace {

std::vector<uint8_t> rising(size_t count) {
  std::vector<uint8_t> bytes(count);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  return bytes;
}

TEST(Xxh64, GivesThePublishedNumbers) {
  EXPECT_EQ(xxh64(rising(0)), 0xEF46DB3751D8E999u);
  EXPECT_EQ(xxh64(rising(1)), 0xE934A84ADB052768u);
  EXPECT_EQ(xxh64(rising(4)), 0xFFCED8604453CC1Eu);
  EXPECT_EQ(xxh64(rising(7)), 0x14CC643F630C72D2u);
  EXPECT_EQ(xxh64(rising(8)), 0x884A173614B81B8Du);
  EXPECT_EQ(xxh64(rising(31)), 0xC346D2B59B4D8EE1u);
  EXPECT_EQ(xxh64(rising(32)), 0xCBF59C5116FF32B4u);
  EXPECT_EQ(xxh64(rising(33)), 0x0C535D1ACAFB8EADu);
  EXPECT_EQ(xxh64(rising(64)), 0xF7C67301DB6713F0u);
  EXPECT_EQ(xxh64(rising(101)), 0xE99038495F85381Eu);
  EXPECT_EQ(xxh64(rising(256)), 0x1FACBE8406CD904Bu);
}

TEST(Xxh64, AnyBitCounts) {
  for (const size_t size : {1u, 7u, 31u, 32u, 45u, 100u}) {
    auto bytes = rising(size);
    const uint64_t before = xxh64(bytes);
    for (size_t i = 0; i < size; ++i) {
      bytes[i] ^= 0x10;
      EXPECT_NE(xxh64(bytes), before) << size << " bytes, the one at " << i;
      bytes[i] ^= 0x10;
    }
  }
}

}  // namespace
}  // namespace millrace::base
