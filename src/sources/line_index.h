// LineIndex: where the lines of a file begin, so that any of them is one read away.
//
// A line ends after its \n, or with the file. A byte order mark of UTF-8 at the file's beginning belongs to
// no line. Blank lines (of spaces, tabs and \r only) are left out, or kept as any other. A line's range
// reaches to the next line's, so it ends with its newline and, where blank lines are left out, with those
// after it. Memory, and size on disk: 4 bytes a line, 8 for each 4 GiB of the file. Immutable once made; any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/byte_source.h"

namespace millrace::sources {

class LineIndex {
 public:
  struct Range {
    int64_t begin = 0, end = 0;
  };

  int64_t size() const { return static_cast<int64_t>(low_.size()); }  // lines
  Range range(int64_t line) const;                                    // line in [0, size())
  int64_t source_bytes() const {
    return source_bytes_;
  }  // of the whole file, to tell whether the index is still its
  bool keeps_blank() const { return keeps_blank_; }
  size_t memory_bytes() const { return low_.size() * sizeof(uint32_t) + turns_.size() * sizeof(int64_t); }

  // The number of lines before a byte of the file, blank ones included, for messages. Reads the file up to
  // that byte.
  static int64_t lines_before(const io::ByteSource& source, int64_t offset);

  // The file appears whole or not at all. load() throws Error(corrupt_data) for anything but an undamaged
  // index of this version. `mark`: content_mark() of the source, for an index that nothing but its name ties
  // to it; 0: none.
  void save(const std::string& path, uint64_t mark = 0) const;
  static LineIndex load(const std::string& path);
  uint64_t mark() const { return mark_; }  // that it was saved with

 private:
  friend class LineIndexBuilder;
  void add(int64_t begin);
  int64_t begin_of(int64_t line) const;

  std::vector<uint32_t> low_;   // the low half of each line's begin
  std::vector<int64_t> turns_;  // turns_[k]: the first line that begins at byte (k + 1) << 32 or past it
  int64_t source_bytes_ = 0;
  bool keeps_blank_ = false;
  uint64_t mark_ = 0;
};

// Makes the index step by step, so that the caller can report progress and stop. Cost: memory's speed for
// lines of some hundred bytes. One thread.
class LineIndexBuilder {
 public:
  // Throws Error(unavailable) for content that is packed and Error(corrupt_data) for UTF-16, by their first
  // bytes.
  LineIndexBuilder(std::shared_ptr<const io::ByteSource> source, bool keep_blank);

  bool step(
      int64_t bytes);  // looks at so many bytes more; false: that was the end. Throws what the source throws
  int64_t position() const { return position_; }
  LineIndex finish();  // at the end, once

 private:
  void scan(const uint8_t* data, size_t bytes);

  const std::shared_ptr<const io::ByteSource> source_;
  LineIndex index_;
  std::unique_ptr<uint8_t[]> buffer_;
  int64_t position_ = 0;
  int64_t line_begin_ = 0;
  bool listed_ = false;  // the line at hand is in the index
};

}  // namespace millrace::sources
