// RowMaker: changes or checks the rows of one field on their way into a batch, for fields that need more than
// a copy.
//
//   row in memory or in a mapped file ──▶ wider elements ──▶ row of the batch
//                                         checked, and targets that cross a border left out
//
// Fixed once made; make() may be called by any thread, several at once, at the cost of the copy. Addresses
// are borrowed: the owner of a RowMaker keeps the files mapped. Rows of mapped files are read under
// core/bus_guard.h, so that a file that was cut short is an Error(corrupt_data) with its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "collate/strided_row.h"

namespace millrace::collate {

// A stretch of memory that is a file's.
struct RowFile {
  const uint8_t* begin = nullptr;
  const uint8_t* end = nullptr;
  std::string path;              // empty: unknown
  int64_t offset = -1;           // of `begin` in the file; -1: unknown
  std::function<bool()> shrank;  // whether the file is shorter than its mapping by now; empty: cannot be told
  const uint8_t* numbers = nullptr;  // element 0 of `borders`
  std::span<const int64_t> borders;  // elements with which documents begin, ascending
};

// Which elements of a row are left out, by writing `value` in their place.
struct Exclusion {
  // Leaves out each element `behind` places past one that equals this; that one may lie before the row.
  std::optional<int64_t> separator;
  int64_t behind = 1;  // 0 or 1
  int64_t value = -100;
};

struct RowMakerOptions {
  base::DType stored = base::DType::i64, made = base::DType::i64;  // the same, or widens(stored, made)
  size_t elements = 0;                                             // of a row
  std::optional<StridedRow>
      strided;           // how a row's values lie; absent: contiguous. If set, rows can only be copied
  bool guarded = false;  // rows lie in mapped files
  std::optional<int64_t> highest;     // no element may be below 0 or above this
  std::optional<Exclusion> excluded;  // also elements that are a file's borders
  std::vector<RowFile> files;
};

class RowMaker {
 public:
  // Throws Error(invalid_argument) for types that it cannot make.
  explicit RowMaker(RowMakerOptions options);

  size_t stored_bytes() const { return options_.elements * base::dtype_bytes(options_.stored); }  // of a row
  size_t made_bytes() const { return options_.elements * base::dtype_bytes(options_.made); }

  // Writes the rows to `out`, one after the other. `past_caches`: the batch is larger than the caches.
  // Throws Error(corrupt_data) for a file that is shorter than it was, and for elements that are not allowed.
  void make(std::span<const uint8_t* const> rows, uint8_t* out, bool past_caches) const;

 private:
  struct Notes;
  void write(std::span<const uint8_t* const> rows, uint8_t* out, bool past_caches, Notes& notes) const;
  bool ends_in_zero(const uint8_t* row) const;
  void leave_out(const uint8_t* row, uint8_t* out) const;
  void put(uint8_t* out, size_t element) const;
  const RowFile* file_of(const void* address) const;
  [[noreturn]] void fail_short(const void* address) const;
  [[noreturn]] void fail_element(const Notes& notes) const;
  void check_ends(std::span<const uint8_t* const> rows) const;

  RowMakerOptions options_;
};

}  // namespace millrace::collate
