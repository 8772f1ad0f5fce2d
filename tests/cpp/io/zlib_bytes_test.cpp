// zlib's format in memory: there and back, damage, and the checksum.
#include "io/zlib_bytes.h"

#include <gtest/gtest.h>

#include <string>

#include "millrace/error.h"

namespace millrace::io {
namespace {

TEST(ZlibBytes, ComeBack) {
  std::vector<uint8_t> bytes(5056);
  for (size_t i = 0; i < bytes.size(); i += 2) bytes[i] = static_cast<uint8_t>(i * 7);
  const std::vector<uint8_t> packed = zlib_packed(bytes, 1);
  EXPECT_LT(packed.size(), bytes.size());
  EXPECT_EQ(zlib_unpacked(packed, bytes.size()), bytes);
  EXPECT_EQ(zlib_unpacked(packed, 2 * bytes.size()), bytes);
  EXPECT_THROW(zlib_unpacked(packed, bytes.size() - 1), Error);
  EXPECT_THROW(zlib_unpacked({packed.data(), packed.size() - 1}, bytes.size()), Error);
  std::vector<uint8_t> damaged = packed;
  damaged[packed.size() / 2] ^= 0xFF;
  EXPECT_THROW(zlib_unpacked(damaged, bytes.size()), Error);
  EXPECT_THROW(zlib_unpacked({}, 10), Error);
}

TEST(ZlibBytes, ChecksumIsThatOfZip) {
  const std::string text = "123456789";
  EXPECT_EQ(crc32({reinterpret_cast<const uint8_t*>(text.data()), text.size()}), 0xCBF43926u);
  EXPECT_EQ(crc32({}), 0u);
}

}  // namespace
}  // namespace millrace::io
