// pread on one descriptor.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "io/byte_source.h"
#include "io/file_errors.h"
#include "millrace/error.h"

namespace millrace {
namespace {

class LocalFile final : public ByteSource {
 public:
  LocalFile(const std::string& path, std::string name) : name_(name.empty() ? path : std::move(name)), fd_(open_to_read(path)) {
    struct stat status;
    if (::fstat(fd_.get(), &status) != 0) fail_on_file("look at", name_, errno);
    if (S_ISDIR(status.st_mode)) fail_on_file("read", name_, EISDIR);
    size_ = status.st_size;
  }

  const std::string& name() const override { return name_; }
  int64_t size() const override { return size_; }

  void read_at(int64_t offset, std::span<uint8_t> into) const override {
    while (!into.empty()) {
      const ssize_t got = ::pread(fd_.get(), into.data(), into.size(), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail_on_file("read", name_, errno);
      if (got == 0)
        throw Error(ErrorKind::corrupt_data, name_ + " ends at byte " + std::to_string(offset) + ", " + std::to_string(into.size()) +
                                                 " bytes before what it says it has; it was cut short, copy it again", name_, offset);
      offset += got;
      into = into.subspan(static_cast<size_t>(got));
    }
  }

  void will_read(int64_t offset, int64_t bytes) const override { ::posix_fadvise(fd_.get(), offset, bytes, POSIX_FADV_WILLNEED); }

 private:
  const std::string name_;
  const Descriptor fd_;
  int64_t size_ = 0;
};

}  // namespace

std::shared_ptr<const ByteSource> open_local_file(const std::string& path, std::string name) {
  return std::make_shared<LocalFile>(path, std::move(name));
}

}  // namespace millrace
