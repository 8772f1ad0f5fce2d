// Descriptor, and what opening and reading files have in common: interrupted calls go on, failures are Errors with path and errno.
#pragma once

#include <string>
#include <utility>

namespace millrace {

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

Descriptor open_to_read(const std::string& path);

// Error(not_found) for ENOENT, else Error(system): "cannot <what> '<path>': ...".
[[noreturn]] void fail_on_file(const char* what, const std::string& path, int code);

}  // namespace millrace
