// EntropyData: the entropy-coded bytes of one scan, without byte stuffing, cut at the restart markers.
//
// A bit reader over these bytes needs no test for FF and none for the end: kTailBytes zeros follow the last segment, more than
// one MCU can take, so it is enough to compare positions once per MCU. Cost: one pass at memory speed. One owner, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

class EntropyData {
 public:
  // Six blocks of 64 coefficients of at most 16 + 15 bits, and what the reader loads ahead.
  static constexpr size_t kTailBytes = 6 * 64 * 31 / 8 + 64;

  // `scan` starts behind the SOS segment. False when the data does not end with an end marker or the restart markers are not
  // RST0, RST1, ... in turn.
  bool load(std::span<const uint8_t> scan);

  size_t segments() const { return ends_.size(); }
  const uint8_t* begin(size_t segment) const { return bytes_.data() + (segment == 0 ? 0 : ends_[segment - 1]); }
  const uint8_t* end(size_t segment) const { return bytes_.data() + ends_[segment]; }

 private:
  std::vector<uint8_t> bytes_;
  std::vector<size_t> ends_;  // end of each segment in bytes_
};

}  // namespace millrace
