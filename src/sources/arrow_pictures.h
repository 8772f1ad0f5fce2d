// ArrowPictures: a column of pictures as Arrow lays it out: each row's bytes, one row after another, or the
// path of its file if the row has no bytes.
//
// Invariant: the memory is another library's, and often a mapped file's. It stays as long as the chunk's
// keeper, which this object holds. Its content is not trusted: offsets that lead out of their chunk are an
// error, and so is a file that was cut short, since mapped memory is read under core/bus_guard.h. Hence the
// copy of each row. Immutable, no memory a row. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sources/sample_files.h"

namespace millrace::sources {

class ArrowPictures final : public SampleFiles {
 public:
  enum Kind : uint8_t { kNull = 0, kBytes = 1, kPath = 2 };

  // Row i is data[offsets[i], offsets[i + 1]); offsets, of any alignment, are int32.
  struct Strings {
    const uint8_t* offsets = nullptr;
    std::span<const uint8_t> data;
  };
  struct Chunk {
    std::span<const uint8_t> kinds;  // of each row, what it has
    Strings bytes, paths;            // without offsets: no row has any
    std::shared_ptr<const void> keeper;
  };

  // `column`: its name, for messages. Throws Error(invalid_argument) for a row of a kind that is not there.
  ArrowPictures(std::string column, std::vector<Chunk> chunks);

  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  std::string name(int64_t index) const override;
  void read(int64_t index, io::FileBuffer& into) const override;

 private:
  std::pair<const Chunk*, size_t> place(int64_t index) const;  // the chunk, and the row in it
  std::string row_name(int64_t index) const;
  std::span<const uint8_t> find(const Strings& strings, size_t row, int64_t index) const;
  void copy(std::span<const uint8_t> from, uint8_t* to, int64_t index) const;
  std::string path(const Chunk& chunk, size_t row, int64_t index) const;

  const std::string column_;
  std::vector<Chunk> chunks_;
  std::vector<int64_t> ends_;  // of each chunk's rows
};

}  // namespace millrace::sources
