// StridedRow: a row of values that are not contiguous, such as a row of a column-major table or of a picture
// with its axes swapped.
//
// Contiguous values are one run, copied at once. Where the runs of a row are pages apart (column by column),
// a block of rows is copied run by run: the reads of one run of many rows do not wait for each other, so that
// their cache misses overlap. Else row by row. Immutable, any thread. Addresses are borrowed; gather() owns
// nothing while it runs, so it may be left by a jump (core/bus_guard.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace::collate {

struct RowAxis {
  int64_t size = 0, stride_bytes = 0;

  bool operator==(const RowAxis&) const = default;
};

class StridedRow {
 public:
  // `axes`: of a row, the outermost first; `item_bytes` of each value.
  StridedRow(std::span<const RowAxis> axes, size_t item_bytes);

  bool operator==(const StridedRow&) const = default;
  bool is_dense() const { return axes_.empty(); }
  size_t row_bytes() const { return row_bytes_; }  // of its values
  // Distances from a row's address: of the first byte of its values, of the end of the values, and of the
  // value at the highest address.
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }
  int64_t last_item() const { return end_ - static_cast<int64_t>(item_bytes_); }

  // Writes the rows to `out`, row-major and one after the other; they must not overlap it.
  void gather(std::span<const uint8_t* const> rows, uint8_t* out) const;

 private:
  size_t item_bytes_, row_bytes_, run_bytes_;
  std::vector<RowAxis> axes_;  // of runs, the outermost first; those that can be one are one
  int64_t begin_ = 0, end_ = 0;
  bool far_apart_ = false;
};

}  // namespace millrace::collate
