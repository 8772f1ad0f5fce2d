// The read loop: sized by fstat, ended by the kernel's word that there is no more.
#include "io/read_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/checked.h"
#include "io/file_errors.h"
#include "trace/stage_clock.h"

namespace millrace::io {
namespace {

constexpr size_t kGrainBytes =
    64 << 10;  // capacities are multiples of this, so that files of similar size share a buffer

size_t read_some(int fd, uint8_t* to, size_t bytes, const std::string& path) {
  for (;;) {
    const ssize_t got = ::read(fd, to, bytes);
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) fail_on_file("read", path, errno);
  }
}

}  // namespace

void FileBuffer::grow(size_t bytes) {
  if (bytes <= capacity_) return;
  const size_t capacity = base::checked_mul((bytes - 1) / kGrainBytes + 1, kGrainBytes, "file");
  auto larger = std::make_unique_for_overwrite<uint8_t[]>(capacity);
  if (size_ > 0) std::memcpy(larger.get(), data_.get(), size_);
  data_ = std::move(larger);
  capacity_ = capacity;
}

std::span<uint8_t> FileBuffer::resize(size_t bytes) {
  size_ = 0;
  grow(bytes);
  size_ = bytes;
  return {data_.get(), size_};
}

void read_file(const std::string& path, FileBuffer& into) {
  const trace::StageScope scope(trace::Stage::read);
  into.size_ = 0;
  struct stat status;
  const Descriptor file = open_to_read(path, status);

  // One byte more than the file has: a regular file that fills all but this byte is known to be whole after a
  // single read.
  const auto expected = static_cast<size_t>(status.st_size);
  into.grow(expected + 1);
  for (;;) {
    const size_t got =
        read_some(file.get(), into.data_.get() + into.size_, into.capacity_ - into.size_, path);
    into.size_ += got;
    if (got == 0 || (expected > 0 && into.size_ == expected)) return;
    if (into.size_ == into.capacity_) into.grow(base::checked_mul(into.capacity_, 2, "file"));
  }
}

}  // namespace millrace::io
