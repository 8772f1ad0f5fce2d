// pread, on one descriptor or on a new one each time.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "io/byte_source.h"
#include "io/file_errors.h"
#include "millrace/error.h"
#include "trace/stage_clock.h"

namespace millrace {
namespace {

class LocalFile final : public ByteSource {
 public:
  LocalFile(const std::string& path, std::string name, bool keep_open) : path_(path), name_(name.empty() ? path : std::move(name)) {
    Descriptor file = open_to_read(path);
    struct stat status;
    if (::fstat(file.get(), &status) != 0) fail_on_file("look at", name_, errno);
    if (S_ISDIR(status.st_mode)) fail_on_file("read", name_, EISDIR);
    size_ = status.st_size;
    if (keep_open) kept_.emplace(std::move(file));
  }

  const std::string& name() const override { return name_; }
  int64_t size() const override { return size_; }

  void read_at(int64_t offset, std::span<uint8_t> into) const override {
    const StageScope scope(Stage::read);
    if (kept_) return read_from(kept_->get(), offset, into);
    const Descriptor file = open_to_read(path_);
    read_from(file.get(), offset, into);
  }

  bool is_here() const override { return true; }

  void will_read(int64_t offset, int64_t bytes) const override {
    if (kept_) ::posix_fadvise(kept_->get(), offset, bytes, POSIX_FADV_WILLNEED);
  }

 private:
  void read_from(int fd, int64_t offset, std::span<uint8_t> into) const {
    while (!into.empty()) {
      const ssize_t got = ::pread(fd, into.data(), into.size(), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail_on_file("read", name_, errno);
      if (got == 0)
        throw Error(ErrorKind::corrupt_data, name_ + " ends at byte " + std::to_string(offset) + ", " + std::to_string(into.size()) +
                                                 " bytes before what it should have; it was cut short, copy it again", name_, offset);
      offset += got;
      into = into.subspan(static_cast<size_t>(got));
    }
  }

  const std::string path_, name_;
  std::optional<const Descriptor> kept_;
  int64_t size_ = 0;
};

}  // namespace

std::shared_ptr<const ByteSource> open_local_file(const std::string& path, std::string name, bool keep_open) {
  return std::make_shared<LocalFile>(path, std::move(name), keep_open);
}

}  // namespace millrace
