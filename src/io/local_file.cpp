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

namespace millrace::io {
namespace {

// What tells one version of a file from another. The inode counts only where the time of the last change of
// the inode differs, too: on some file systems of user space a file gets another number whenever it is looked
// up.
struct Version {
  explicit Version(const struct stat& status)
      : size(status.st_size), inode(status.st_ino), modified(status.st_mtim), changed(status.st_ctim) {}

  bool is_of(const struct stat& now) const {
    const auto same = [](const timespec& a, const timespec& b) {
      return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
    };
    return size == now.st_size && same(modified, now.st_mtim) &&
           (inode == now.st_ino || same(changed, now.st_ctim));
  }

  int64_t size;
  ino_t inode;
  timespec modified, changed;
};

class LocalFile final : public ByteSource {
 public:
  LocalFile(const std::string& path, std::string name, bool keep_open)
      : path_(path), name_(name.empty() ? path : std::move(name)) {
    struct stat status;
    Descriptor file = open_to_read(path, status);
    version_.emplace(status);
    if (keep_open) kept_.emplace(std::move(file));
  }

  const std::string& name() const override { return name_; }
  int64_t size() const override { return version_->size; }

  void read_at(int64_t offset, std::span<uint8_t> into) const override {
    const trace::StageScope scope(trace::Stage::read);
    if (kept_) return read_from(kept_->get(), offset, into);
    struct stat now;
    const Descriptor file = open_to_read(path_, now);
    if (!version_->is_of(now))
      throw Error(ErrorKind::corrupt_data,
                  name_ +
                      " is another file than when it was opened, or was written to since; make the dataset "
                      "anew when nobody writes to it any more",
                  name_);
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
        throw Error(ErrorKind::corrupt_data,
                    name_ + " ends at byte " + std::to_string(offset) + ", " + std::to_string(into.size()) +
                        " bytes before what it should have; it was cut short, copy it again",
                    name_, offset);
      offset += got;
      into = into.subspan(static_cast<size_t>(got));
    }
  }

  const std::string path_, name_;
  std::optional<Version> version_;  // set once, by the constructor
  std::optional<const Descriptor> kept_;
};

}  // namespace

std::shared_ptr<const ByteSource> open_local_file(const std::string& path, std::string name, bool keep_open) {
  return std::make_shared<LocalFile>(path, std::move(name), keep_open);
}

}  // namespace millrace::io
