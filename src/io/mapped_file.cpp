#include "io/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "io/file_errors.h"

namespace millrace::io {

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  struct stat status;
  const Descriptor file = open_to_read(path_, status);
  size_ = static_cast<size_t>(status.st_size);
  device_ = status.st_dev;
  inode_ = status.st_ino;
  if (size_ == 0) return;
  void* const mapped = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) fail_on_file("map", path_, errno);
  data_ = static_cast<const uint8_t*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<uint8_t*>(data_), size_);
}

void MappedFile::advise(Access access) const {
  const int advice = access == Access::random       ? MADV_RANDOM
                     : access == Access::sequential ? MADV_SEQUENTIAL
                                                    : MADV_NORMAL;
  if (data_) ::madvise(const_cast<uint8_t*>(data_), size_, advice);
}

bool MappedFile::shrank() const {
  struct stat status;
  if (::stat(path_.c_str(), &status) != 0) return false;
  return status.st_dev == device_ && status.st_ino == inode_ && static_cast<size_t>(status.st_size) < size_;
}

}  // namespace millrace::io
