// Checked arithmetic on sizes that come from files or users: an overflow is an Error, never a small number.
#pragma once

#include <cstddef>
#include <string>

#include "millrace/error.h"

namespace millrace::base {

inline size_t checked_mul(size_t a, size_t b, const char* what) {
  size_t r;
  if (__builtin_mul_overflow(a, b, &r))
    throw Error(ErrorKind::invalid_argument,
                std::string(what) + ": " + std::to_string(a) + " x " + std::to_string(b) +
                    " bytes is larger than memory can be; use smaller batches or images");
  return r;
}

inline size_t checked_add(size_t a, size_t b, const char* what) {
  size_t r;
  if (__builtin_add_overflow(a, b, &r))
    throw Error(ErrorKind::invalid_argument,
                std::string(what) + ": " + std::to_string(a) + " + " + std::to_string(b) +
                    " bytes is larger than memory can be; use smaller batches or images");
  return r;
}

}  // namespace millrace::base
