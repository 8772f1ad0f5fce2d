// ChunkedArray: boxes of an array with chunks that lie in a file, each by itself, as in HDF5.
//
// The places of the chunks are told once; no library is asked again, so any number of threads read at the
// same time, without a lock: each read() takes the chunks that its box touches, one after the other, undoes
// their filters and byte order, and copies the elements of the box. Chunks that were never written are
// `fill`. Of chunks without filters only the bytes between the first and the last wanted one are read; a
// chunk that is wanted whole, into memory of its own shape, is decoded right there. Other decoded chunks go
// through the ChunkCache, if one is given. Immutable after construction; read() keeps no more than three
// chunks of memory, and only while it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "arrays/chunk_cache.h"
#include "codecs/chunk_filters.h"
#include "io/byte_source.h"

namespace millrace::arrays {

struct ChunkPlace {
  int64_t cell = 0;       // number of the chunk in the grid of chunks, the last axis counting fastest
  int64_t offset = 0;     // in the file, in bytes
  int64_t bytes = 0;      // as stored
  uint32_t left_out = 0;  // filters that it was written without, a bit each
};

struct ArrayForm {
  std::vector<int64_t> shape;  // elements along each axis
  std::vector<int64_t> chunk;  // those of a chunk; chunks at the end are stored whole
  size_t element_bytes = 1;
  size_t swap_bytes = 1;  // groups of so many bytes are turned round: 1, 2, 4 or 8
  std::vector<codecs::ChunkFilter> filters;
  std::vector<uint8_t> fill;  // one element, in the machine's byte order
};

// Along one axis: `count` elements from `start` on, every `step`th.
struct AxisRange {
  int64_t start = 0, count = 0, step = 1;
};

class ChunkedArray {
 public:
  // `called`: the array's name, for messages. Throws Error(invalid_argument) for a form that contradicts
  // itself, places outside the grid or twice the same; Error(corrupt_data) for places outside the file.
  ChunkedArray(std::shared_ptr<const io::ByteSource> source, std::string called, ArrayForm form,
               std::vector<ChunkPlace> places, std::shared_ptr<ChunkCache> cache = nullptr);
  ~ChunkedArray();
  ChunkedArray(const ChunkedArray&) = delete;
  ChunkedArray& operator=(const ChunkedArray&) = delete;

  const ArrayForm& form() const { return form_; }

  // The bytes that read() writes. Error(invalid_argument) for a box of another rank, Error(out_of_range) for
  // one outside the array.
  size_t box_bytes(std::span<const AxisRange> box) const;

  // The box as a dense array, the last axis fastest, in `out` of box_bytes(). Any thread. Errors of the
  // source, and Error(corrupt_data) that names file, array, chunk and byte.
  void read(std::span<const AxisRange> box, std::span<uint8_t> out) const;

 private:
  struct Cut;
  class Reading;

  const ChunkPlace* find(int64_t cell) const;
  [[noreturn]] void fail(const ChunkPlace& place, std::span<const int64_t> corner, const char* what) const;

  const std::shared_ptr<const io::ByteSource> source_;
  const std::string called_;
  const ArrayForm form_;
  std::vector<ChunkPlace> places_;  // by cell
  std::vector<int64_t> grid_;       // chunks along each axis
  size_t chunk_bytes_ = 0;
  const std::shared_ptr<ChunkCache> cache_;  // null: decoded chunks are not kept
  const uint64_t in_cache_;
};

}  // namespace millrace::arrays
