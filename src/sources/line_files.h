// LineFiles: the lines of several files, counted through, read for a batch at once.
//
// Lines that lie close to each other are one read, so a batch in the files' order costs one or two.
// Immutable; any number of threads, each with a LineBatch of its own. Throws Error(out_of_range) for lines
// that there are not, Error(corrupt_data) where a line does not end with a newline (but for a file's last
// one), as the index is of other bytes then, and what the sources throw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "io/byte_source.h"
#include "sources/line_index.h"

namespace millrace::sources {

// The lines of a batch, in the order asked for, each with its newline and kLinePadding readable bytes after
// it. Lines longer than `most_line_bytes` are not read: their `data` is null.
inline constexpr size_t kLinePadding = 64;

struct LineBatch {
  struct Line {
    const uint8_t* data = nullptr;
    size_t bytes = 0;
  };
  std::vector<Line> lines;

 private:
  friend class LineFiles;
  struct Wanted {
    size_t file = 0;
    LineIndex::Range range;
    size_t row = 0;
  };
  std::vector<Wanted> wanted_;
  std::unique_ptr<uint8_t[]> buffer_;  // its memory is kept for the next batch
  size_t capacity_ = 0;
};

class LineFiles {
 public:
  struct Place {
    size_t file = 0;
    LineIndex::Range range;
  };

  LineFiles(std::vector<std::shared_ptr<const io::ByteSource>> sources,
            std::vector<std::shared_ptr<const LineIndex>> indexes, int64_t most_line_bytes);

  int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  Place place(int64_t line) const;
  const io::ByteSource& source(size_t file) const { return *sources_[file]; }

  void read(std::span<const int64_t> lines, LineBatch& batch) const;

  // Tells the sources which lines will be read soon.
  void will_read(std::span<const int64_t> lines) const;

 private:
  const std::vector<std::shared_ptr<const io::ByteSource>> sources_;
  const std::vector<std::shared_ptr<const LineIndex>> indexes_;
  const int64_t most_line_bytes_;
  std::vector<int64_t> ends_;  // lines up to the end of each file
};

}  // namespace millrace::sources
