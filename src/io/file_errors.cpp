#include "io/file_errors.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "millrace/error.h"

namespace millrace {

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Descriptor open_to_read(const std::string& path) {
  for (;;) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd >= 0) return Descriptor(fd);
    if (errno != EINTR) fail_on_file("open", path, errno);
  }
}

void fail_on_file(const char* what, const std::string& path, int code) {
  const bool missing = code == ENOENT;
  throw Error(missing ? ErrorKind::not_found : ErrorKind::system,
              std::string("cannot ") + what + " '" + path + "': " + std::generic_category().message(code) +
                  (missing ? "; check the name, and whether it was moved or deleted since it was listed"
                           : "; it must be a file that this process may read"),
              path, -1, code);
}

}  // namespace millrace
