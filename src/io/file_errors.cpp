#include "io/file_errors.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "millrace/error.h"

namespace millrace::io {

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

namespace {

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  return "no file with data";
}

[[noreturn]] void fail_on_kind(const std::string& path, mode_t mode) {
  throw Error(ErrorKind::system,
              "cannot read '" + path + "': it is " + kind_of(mode) +
                  ", not a regular file; name a regular file, or take this one away",
              path, -1, S_ISDIR(mode) ? EISDIR : EINVAL);
}

}  // namespace

Descriptor open_to_read(const std::string& path, struct stat& status) {
  int waiting = O_NONBLOCK;  // a FIFO's open() returns at once; nothing to a regular file
  for (;;) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | waiting);
    const int code = errno;
    if (fd < 0 && code == EINTR) continue;
    if (fd < 0) {
      const bool known = ::stat(path.c_str(), &status) == 0;
      if (known && !S_ISREG(status.st_mode) && code != EACCES)
        fail_on_kind(path, status.st_mode);  // a socket, a device without driver
      if (!known || code != EWOULDBLOCK || waiting == 0) fail_on_file("open", path, code);
      waiting = 0;  // somebody has a lease on the file, and gives it up if asked for it
      continue;
    }
    Descriptor file(fd);
    if (::fstat(fd, &status) != 0) fail_on_file("look at", path, errno);
    if (!S_ISREG(status.st_mode)) fail_on_kind(path, status.st_mode);
    return file;
  }
}

Descriptor open_to_read(const std::string& path) {
  struct stat status;
  return open_to_read(path, status);
}

void fail_on_file(const char* what, const std::string& path, int code) {
  const bool missing = code == ENOENT;
  throw Error(missing ? ErrorKind::not_found : ErrorKind::system,
              std::string("cannot ") + what + " '" + path + "': " + std::generic_category().message(code) +
                  (missing ? "; check the name, and whether it was moved or deleted since it was listed"
                           : "; it must be a file that this process may read"),
              path, -1, code);
}

}  // namespace millrace::io
