// Error: the one exception type that leaves millrace's C++ code.
//
// Kinds a caller can act on, plus `system` for errno failures. The message is a whole sentence that names the
// input, the rule and the remedy. `path` and `offset` say where the bad bytes are, when they are in a file;
// they are data for reports, so the message repeats the path where a reader needs it. Cheap to move,
// thread-safe once built (immutable).
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "millrace/export.h"

namespace millrace {

enum class ErrorKind : uint8_t {
  invalid_argument,  // ValueError
  out_of_range,      // IndexError
  not_found,         // FileNotFoundError
  corrupt_data,      // millrace.CorruptDataError (an OSError, as Pillow's)
  unavailable,       // millrace.UnavailableError (a RuntimeError)
  system,            // OSError with its errno
  shape_mismatch,    // RuntimeError, as torch.stack's
};

class MILLRACE_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  Error(ErrorKind kind, const std::string& message, std::string path, int64_t offset = -1, int code = 0)
      : std::runtime_error(message), kind_(kind), code_(code), path_(std::move(path)), offset_(offset) {}

  ErrorKind kind() const noexcept { return kind_; }
  const std::string& path() const noexcept { return path_; }  // empty: no file involved
  int64_t offset() const noexcept { return offset_; }         // byte offset in the file, -1: unknown
  int code() const noexcept {
    return code_;
  }  // errno of `system` and `not_found`; of `corrupt_data` a PictureFault or 0

 private:
  ErrorKind kind_;
  int code_ = 0;
  std::string path_;
  int64_t offset_ = -1;
};

}  // namespace millrace
