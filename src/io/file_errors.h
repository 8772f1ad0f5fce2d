// Descriptor, and what opening and reading files have in common: interrupted calls go on, failures are Errors
// with path and errno.
#pragma once

#include <sys/stat.h>

#include <string>
#include <utility>

namespace millrace::io {

// Owns a file descriptor; closes it at its end.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// The one way in which files with data are opened. Regular files only: opening a FIFO would wait for a
// writer, and a device may give bytes without end. Neither waits. Throws as fail_on_file(), with EISDIR for a
// folder, EINVAL for FIFOs, devices and sockets. `status`: as fstat() has it.
Descriptor open_to_read(const std::string& path, struct stat& status);
Descriptor open_to_read(const std::string& path);

// Error(not_found) for ENOENT, else Error(system): "cannot <what> '<path>': ...".
[[noreturn]] void fail_on_file(const char* what, const std::string& path, int code);

}  // namespace millrace::io
