// MappedFile: a whole file in memory, read only, as pages that the system loads when they are touched and
// takes back when it needs room.
//
// Opening costs a few system calls, whatever the size; no descriptor is kept, so thousands may be open. The
// mapping is the object's and ends with it. Any thread. Readers must expect SIGBUS once another program cuts
// the file short (core/bus_guard.h).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace millrace::io {

class MappedFile {
 public:
  enum class Access : uint8_t { normal, sequential, random };

  // Throws Error(not_found) or Error(system), also for a path that is not a regular file.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const uint8_t> bytes() const {
    return {data_, size_};
  }  // empty, at a null address, for an empty file

  // What the system is to expect: how much it reads at a page that is not there. Advice; a refusal is
  // nothing.
  void advise(Access access) const;
  // Whether the file is shorter now than when it was opened: the bytes of its last page past the end are then
  // read as zeros. False when the path leads to another file or nowhere: this one is whole as long as it is
  // mapped.
  bool shrank() const;

 private:
  std::string path_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace millrace::io
