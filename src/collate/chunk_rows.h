// ChunkRows: a chunk's columns, in the form in which rows are copied from them into batches.
//
// Where rows are wanted in any order, columns of small values are interleaved, which copies them. The other
// columns are used where they lie; the owner of a ChunkRows keeps them alive and in place. Immutable, so any
// thread may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collate/interleaved_rows.h"
#include "collate/row_gather.h"

namespace millrace::collate {

class ChunkRows {
 public:
  // `row_bytes` of each row are contiguous; `item_bytes`: of each item in them.
  struct Column {
    const uint8_t* data = nullptr;
    size_t row_bytes = 0, item_bytes = 1;
    int64_t stride_bytes = 0;

    bool operator==(const Column&) const = default;
  };

  ChunkRows(std::vector<Column> columns, int64_t rows, bool in_any_order);

  int64_t rows() const { return rows_; }
  const std::vector<Column>& columns() const { return columns_; }  // where they lie now
  bool is_interleaved(size_t column) const;

 private:
  friend class RowDealer;

  // A column among the interleaved ones.
  struct Part {
    size_t column = 0, offset = 0, bytes = 0;

    bool operator==(const Part&) const = default;
  };
  // A column that is not interleaved, as row_gather.h has it.
  struct Apart {
    size_t column = 0;
    RowField field;
  };

  const int64_t rows_;
  std::vector<Column> columns_;
  std::vector<Part> parts_;
  std::optional<InterleavedRows> interleaved_;
  std::vector<Apart> apart_;
};

// Some of a chunk's rows, and the place in the batch of each.
struct ChunkShare {
  const ChunkRows* chunk = nullptr;
  std::span<const int64_t> rows, places;
};

// Copies shares into batches; keeps its memory between calls. One thread at a time.
class RowDealer {
 public:
  // Places are below `size`, each taken once; out[i]: of column i, a row's bytes for each place. Rows below
  // zero count from the end. Throws Error(out_of_range) for a row that its chunk does not have.
  void copy(std::span<const ChunkShare> shares, size_t size, std::span<uint8_t* const> out);

 private:
  void copy_apart(const ChunkShare& share, std::span<uint8_t* const> out);
  void deal(const ChunkRows& like, std::span<uint8_t* const> out);

  std::vector<const uint8_t*> addresses_, dealt_;
  std::vector<int64_t> places_;
  std::vector<DealtColumn> columns_;
};

}  // namespace millrace::collate
