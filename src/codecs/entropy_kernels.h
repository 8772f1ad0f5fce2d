// The two passes over entropy-coded bytes: find a marker, take out the stuffing. At the machine's vector
// width; an FF comes about every 200 bytes in photos. Pure functions, any thread; they read nothing past
// `end`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::codecs {

struct EntropyKernels {
  static constexpr size_t kSlack = 256;  // bytes that unstuff may write past its last byte

  // The first FF that no 00 follows, or `end`; an FF that is the last byte counts as one.
  const uint8_t* (*find_marker)(const uint8_t* from, const uint8_t* end);

  // Copies up to the first marker, each FF 00 as FF, and moves `to` past the last byte written. Returns what
  // find_marker would.
  const uint8_t* (*unstuff)(const uint8_t* from, const uint8_t* end, uint8_t*& to);
};

EntropyKernels entropy_kernels();  // the best for this machine

}  // namespace millrace::codecs
