// read_file: a whole file into a reused buffer.
//
// Regular files only. One open, one fstat, one read; files that grow or report no size (/proc) are read to
// their end. The buffer keeps its memory from call to call. Throws Error(not_found | system) with path and
// errno. Any thread, one buffer each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace millrace::io {

class FileBuffer {
 public:
  std::span<const uint8_t> bytes() const { return {data_.get(), size_}; }
  size_t capacity() const { return capacity_; }  // bytes of memory, of the longest file so far
  std::span<uint8_t> resize(size_t bytes);       // of any content, to be written

 private:
  friend void read_file(const std::string& path, FileBuffer& into);
  void grow(size_t bytes);  // capacity of at least `bytes`; what was read so far stays
  std::unique_ptr<uint8_t[]> data_;
  size_t size_ = 0, capacity_ = 0;
};

void read_file(const std::string& path, FileBuffer& into);

}  // namespace millrace::io
