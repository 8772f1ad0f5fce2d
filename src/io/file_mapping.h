// FileMappings: which files stretches of this process's memory are mapped from, no matter which code mapped
// them.
//
// A tensor or array does not say that its memory is a file's, and reading one that was cut short is SIGBUS:
// so this asks the system. New systems can say of one address that it is not mapped from a file; else the
// list of all mappings is read, once, for the first address of a file (some 1 ms in a process with torch).
// Mappings made after that are not seen. One thread at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace millrace::io {

struct FileMapping {
  const uint8_t* begin = nullptr;
  const uint8_t* end = nullptr;
  int64_t offset = 0;    // of `begin` in the file
  std::string path;      // as it was when the mappings were read; empty: the file has no name any more
  bool on_disk = false;  // reading it may have to wait; false for files that are memory (/dev/shm, memfd)
};

class FileMappings {
 public:
  // Nothing for memory that is no file's, and when the system does not say.
  std::optional<FileMapping> at(const void* address);

 private:
  std::optional<std::vector<FileMapping>> all_;  // ascending
};

// Tells whether a file has become shorter than `bytes`. False when its path leads to another file or nowhere
// by now: the one that is mapped is whole as long as it is mapped.
class ShrinkWatch {
 public:
  ShrinkWatch(std::string path, int64_t bytes);
  bool shrank() const;

 private:
  std::string path_;
  int64_t bytes_;
  bool known_ = false;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace millrace::io
