// An entry of the disk cache, as it lies on disk: blocks, and in the map a record of 8 bytes for each: a
// mark, and the block's CRC32C.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "io/crc32c.h"

namespace millrace::io {

constexpr uint64_t kPresent =
    0x4d495243ull << 32;  // upper half of a present block's record; the lower half is its checksum

inline bool is_present(uint64_t record) { return (record & ~0xffffffffull) == kPresent; }

inline uint64_t record_at(std::span<const uint8_t> records, int64_t block) {
  uint64_t record;
  std::memcpy(&record, records.data() + block * 8, 8);
  return record;
}

// False: the file ends before, or cannot be read.
inline bool read_all(int fd, std::span<uint8_t> into, int64_t offset) {
  while (!into.empty()) {
    const ssize_t got = ::pread(fd, into.data(), into.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    offset += got;
    into = into.subspan(static_cast<size_t>(got));
  }
  return true;
}

// Reads part of a block, and compares all of it with its record. False: it cannot be read, or is another one.
inline bool read_checked(int fd, int64_t begin, uint32_t length, uint32_t checksum, int64_t offset,
                         std::span<uint8_t> into) {
  if (into.size() == length) return read_all(fd, into, begin) && crc32c(0, into) == checksum;
  thread_local std::vector<uint8_t> whole;
  whole.resize(length);
  if (!read_all(fd, whole, begin) || crc32c(0, whole) != checksum) return false;
  std::copy_n(whole.begin() + (offset - begin), into.size(), into.begin());
  return true;
}

}  // namespace millrace::io
