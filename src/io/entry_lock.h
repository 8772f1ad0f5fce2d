// EntryLock: says to all processes that an entry of the disk cache is in use: flock(LOCK_SH) on its map.
//
// It ends with this object or with the process, whichever is first. A forked child inherits the descriptor,
// and with it the lock; it closes its copy at once, so that a reader there does not keep the entry in use
// after the parent was killed. Any thread. Cost: three system calls.
#pragma once

#include <cstdint>
#include <string>

namespace millrace::io {

class EntryLock {
 public:
  explicit EntryLock(const std::string& map_path);  // is_held() says whether it worked
  ~EntryLock();
  EntryLock(const EntryLock&) = delete;
  EntryLock& operator=(const EntryLock&) = delete;

  bool is_held() const { return fd_ >= 0; }
  int fd() const {
    return fd_;
  }  // of the map, to read and write; not to be duplicated. Gone in a forked child.
  bool in_child() const;

 private:
  int fd_ = -1;
  const uint64_t generation_;  // of fork()
};

}  // namespace millrace::io
