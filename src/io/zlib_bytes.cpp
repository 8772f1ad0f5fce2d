#include "io/zlib_bytes.h"

#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <string>

#include "millrace/error.h"

namespace millrace::io {

std::vector<uint8_t> zlib_packed(std::span<const uint8_t> bytes, int level) {
  uLongf size = ::compressBound(bytes.size());
  std::vector<uint8_t> packed(size);
  if (::compress2(packed.data(), &size, bytes.data(), bytes.size(), level) != Z_OK) throw std::bad_alloc();
  packed.resize(size);
  return packed;
}

std::vector<uint8_t> zlib_unpacked(std::span<const uint8_t> packed, size_t most) {
  std::vector<uint8_t> bytes(most);
  uLongf size = most;
  if (const int failure = ::uncompress(bytes.data(), &size, packed.data(), packed.size()); failure != Z_OK)
    throw Error(ErrorKind::corrupt_data,
                failure == Z_BUF_ERROR
                    ? "the zlib data ends early, or has more than " + std::to_string(most) + " bytes"
                    : std::string("the zlib data is damaged"));
  bytes.resize(size);
  return bytes;
}

uint32_t crc32(std::span<const uint8_t> bytes) {
  uLong sum = ::crc32(0, nullptr, 0);
  for (size_t at = 0; at < bytes.size();) {
    const size_t count = std::min(bytes.size() - at, size_t{1} << 30);  // zlib counts in unsigned int
    sum = ::crc32(sum, bytes.data() + at, static_cast<uInt>(count));
    at += count;
  }
  return static_cast<uint32_t>(sum);
}

std::string crc32_text(std::span<const uint8_t> bytes) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", crc32(bytes));
  return text;
}

}  // namespace millrace::io
