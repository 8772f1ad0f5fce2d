#include "io/saved_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "io/file_errors.h"

namespace millrace::io {
namespace {

// 0, or the errno.
int write_all(int fd, std::span<const uint8_t> left) {
  while (!left.empty()) {
    const ssize_t wrote = ::write(fd, left.data(), left.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno;
    left = left.subspan(static_cast<size_t>(wrote));
  }
  return 0;
}

}  // namespace

void save_file(const std::string& path, std::span<const std::span<const uint8_t>> parts) {
  std::string unfinished = path + ".XXXXXX";
  const int fd = ::mkostemp(unfinished.data(), O_CLOEXEC);
  if (fd < 0) fail_on_file("create", path, errno);
  const Descriptor file(fd);
  for (const auto& part : parts) {
    if (const int code = write_all(fd, part); code != 0) {
      ::unlink(unfinished.c_str());
      fail_on_file("write", path, code);
    }
  }
  ::fchmod(fd, 0644);  // mkostemp's 0600 would keep other users of the data out
  if (::rename(unfinished.c_str(), path.c_str()) != 0) {
    const int code = errno;
    ::unlink(unfinished.c_str());
    fail_on_file("create", path, code);
  }
}

uint64_t checksum(std::span<const uint8_t> bytes, uint64_t before) {
  uint64_t hash = before;
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
    hash = (hash ^ word) * 0x100000001B3u;
    hash ^= hash >> 32;
  }
  return hash;
}

uint64_t content_mark(const ByteSource& source) {
  constexpr int64_t kPlaces = 16, kBytes = 4 << 10;
  std::array<uint8_t, kBytes> bytes;
  const int64_t size = source.size(), each = std::min(kBytes, size);
  uint64_t mark = checksum({reinterpret_cast<const uint8_t*>(&size), sizeof size});
  int64_t next = 0;  // so that small files are read once
  for (int64_t place = 0; place < kPlaces && next < size; ++place) {
    const int64_t even = place == kPlaces - 1 ? size - each : (size - each) / (kPlaces - 1) * place;
    const int64_t begin = std::max(next, even);
    const std::span<uint8_t> part(bytes.data(), static_cast<size_t>(std::min(kBytes, size - begin)));
    source.read_at(begin, part);
    mark = checksum(part, mark);
    next = begin + static_cast<int64_t>(part.size());
  }
  return mark;
}

}  // namespace millrace::io
