// LineReader: the lines of a file or object from first to last, plain or packed by gzip or zstd.
//
// Lines are as LineIndex has them (line_index.h), their bytes valid until the next call, with kLinePadding
// readable bytes after them.
// Memory: a buffer of 256 KiB, or twice the longest line that is not too long. One thread. Throws what
// ByteStream throws, and Error(corrupt_data) for UTF-16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/byte_stream.h"

namespace millrace::sources {

class LineReader {
 public:
  struct Line {
    const uint8_t* data = nullptr;  // null: too long, and passed over
    size_t bytes = 0;               // with its newline, if it has one
    int64_t offset = 0;             // in the unpacked file
    int64_t number = 0;             // blank lines counted
  };

  LineReader(std::shared_ptr<const io::ByteSource> source, bool keep_blank, int64_t most_line_bytes);

  // Up to `most` lines: those that are in the buffer, and at least one. False at the end.
  bool next(std::vector<Line>& lines, size_t most);

 private:
  bool fill();
  size_t line_end();

  const std::unique_ptr<io::ByteStream> stream_;
  const std::string name_;
  const bool keep_blank_;
  const size_t most_line_bytes_;
  std::vector<uint8_t> buffer_;
  size_t begin_ = 0, searched_ = 0,
         end_ = 0;                   // of what was read: lines not given yet, what holds no newline, bytes
  int64_t offset_ = 0, number_ = 0;  // of the line at begin_
  bool ended_ = false;               // the stream
  bool too_long_ = false;            // the line at begin_ is being passed over
};

}  // namespace millrace::sources
