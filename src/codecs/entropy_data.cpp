#include "codecs/entropy_data.h"

#include <cstring>

namespace millrace {

bool EntropyData::load(std::span<const uint8_t> scan) {
  ends_.clear();
  if (scan.empty()) return false;
  if (bytes_.size() < scan.size() + kTailBytes) bytes_.resize(scan.size() + kTailBytes);
  const uint8_t* from = scan.data();
  const uint8_t* const end = from + scan.size();
  uint8_t* to = bytes_.data();
  uint8_t next_restart = 0xD0;
  while (true) {
    // memchr and memcpy run at the width of the machine; an FF comes about every 200 bytes.
    const auto* marker = static_cast<const uint8_t*>(std::memchr(from, 0xFF, static_cast<size_t>(end - from)));
    if (marker == nullptr || end - marker < 2) return false;
    const size_t run = static_cast<size_t>(marker - from);
    std::memcpy(to, from, run);
    to += run;
    from = marker + 2;
    if (marker[1] == 0x00) {
      *to++ = 0xFF;
    } else if (marker[1] == next_restart) {
      ends_.push_back(static_cast<size_t>(to - bytes_.data()));
      next_restart = next_restart == 0xD7 ? 0xD0 : static_cast<uint8_t>(next_restart + 1);
    } else if (marker[1] == 0xD9) {
      break;
    } else {
      return false;
    }
  }
  ends_.push_back(static_cast<size_t>(to - bytes_.data()));
  std::memset(to, 0, kTailBytes);
  return true;
}

}  // namespace millrace
