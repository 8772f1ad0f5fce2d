// What block_file.cpp and block_file_read.cpp share: blocks that are being read or written.
#pragma once

#include <algorithm>

#include "io/block_file.h"
#include "io/block_records.h"

namespace millrace::io {

// Unlocks for its life, with the blocks [first, last] kept from being dropped; locks again at its end.
class BlockFile::Pin {
 public:
  Pin(BlockFile& file, int64_t first, int64_t last, std::unique_lock<std::mutex>& lock)
      : file_(file), range_(first, last), lock_(lock) {
    file_.pins_.push_back(range_);
    lock_.unlock();
  }
  ~Pin() {
    lock_.lock();
    file_.pins_.erase(std::find(file_.pins_.begin(), file_.pins_.end(), range_));
  }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

 private:
  BlockFile& file_;
  const std::pair<int64_t, int64_t> range_;
  std::unique_lock<std::mutex>& lock_;
};

}  // namespace millrace::io
