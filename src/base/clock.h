// now_ns: the monotonic clock in nanoseconds, the one clock of trace and benchmarks.
#pragma once

#include <chrono>
#include <cstdint>

namespace millrace::base {

inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace millrace::base
