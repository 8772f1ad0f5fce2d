// EntropyData: the entropy-coded bytes of one scan, cut at its restart markers, each segment's byte stuffing
// taken out when it is opened.
//
// The markers are the file's index of segments: finding all costs a few microseconds per 100 KB, hardly more
// than reading a table of them, works for any encoder's files, and cannot be wrong as a table can. A bit
// reader over an open segment needs no test for FF and none for the end: kTailBytes readable bytes follow,
// more than one MCU can take, so it is enough to compare positions once per MCU. One owner, one thread;
// borrows the scan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codecs/entropy_kernels.h"

namespace millrace::codecs {

// Whether a scan that is the file's only one goes to its end marker as it should: on the way are restart
// markers, RST0, RST1, ... in turn, where the stream announces them, and no others. `scan` starts after the
// SOS segment. A few microseconds per 100 KB.
bool scan_is_regular(std::span<const uint8_t> scan, bool restarts);

class EntropyData {
 public:
  // Six blocks of 64 coefficients of at most 16 + 15 bits, and what the reader loads ahead.
  static constexpr size_t kTailBytes = 6 * 64 * 31 / 8 + 64;

  // `scan` starts after the SOS segment; `restarts`: the stream announces restart markers. False when the
  // data does not end with an end marker, when the restart markers are not RST0, RST1, ... in turn, or when
  // there are some that were not announced.
  bool load(std::span<const uint8_t> scan, bool restarts);

  size_t segments() const { return ends_.size(); }

  // The bytes of a segment; they are valid until the next call.
  std::span<const uint8_t> open(size_t segment);

 private:
  const EntropyKernels kernels_ = entropy_kernels();
  std::span<const uint8_t> scan_;
  std::vector<size_t> ends_;    // place of each segment's closing marker in the scan
  std::vector<uint8_t> bytes_;  // the open segment
  size_t open_size_ = 0;
  bool whole_ = false;  // no restart markers: load() has opened the only segment in its one pass
};

}  // namespace millrace::codecs
