#include "codecs/entropy_data.h"

namespace millrace::codecs {

bool scan_is_regular(std::span<const uint8_t> scan, bool restarts) {
  const EntropyKernels kernels = entropy_kernels();
  const uint8_t* const end = scan.data() + scan.size();
  const uint8_t* marker = kernels.find_marker(scan.data(), end);
  for (uint8_t next = 0; restarts && end - marker >= 2 && marker[1] == 0xD0 + next; next = (next + 1) & 7)
    marker = kernels.find_marker(marker + 2, end);
  return end - marker >= 2 && marker[1] == 0xD9;
}

bool EntropyData::load(std::span<const uint8_t> scan, bool restarts) {
  ends_.clear();
  scan_ = scan;
  const size_t room = scan.size() + EntropyKernels::kSlack + kTailBytes;
  if (bytes_.size() < room) bytes_.resize(room);
  const uint8_t* const begin = scan.data();
  const uint8_t* const end = begin + scan.size();
  const uint8_t* marker = begin;
  whole_ = !restarts;
  if (whole_) {
    uint8_t* to = bytes_.data();
    marker = kernels_.unstuff(begin, end, to);
    open_size_ = static_cast<size_t>(to - bytes_.data());
  } else {
    for (uint8_t next = 0;; next = (next + 1) & 7) {
      marker = kernels_.find_marker(marker, end);
      if (end - marker < 2 || marker[1] != 0xD0 + next) break;
      ends_.push_back(static_cast<size_t>(marker - begin));
      marker += 2;
    }
  }
  if (end - marker < 2 || marker[1] != 0xD9) return false;
  ends_.push_back(static_cast<size_t>(marker - begin));
  return true;
}

std::span<const uint8_t> EntropyData::open(size_t segment) {
  if (!whole_) {
    const size_t begin = segment == 0 ? 0 : ends_[segment - 1] + 2;
    uint8_t* to = bytes_.data();
    kernels_.unstuff(scan_.data() + begin, scan_.data() + ends_[segment], to);
    open_size_ = static_cast<size_t>(to - bytes_.data());
  }
  return {bytes_.data(), open_size_};
}

}  // namespace millrace::codecs
