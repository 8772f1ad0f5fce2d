// Rows of fields that lie in memory: finds chosen rows, and copies them one after the other.
//
// Addresses are borrowed: the owner of a RowField keeps the memory alive and in place. Functions of any
// thread. Rows that lie anywhere cost little more than rows in order: all addresses are known beforehand, so
// that some rows are fetched into the cache while earlier ones are copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace millrace::collate {

// Row i begins at base + i * stride_bytes. The stride may be zero (an expanded tensor) or negative (a
// reversed array).
struct RowTable {
  const uint8_t* base = nullptr;
  int64_t rows = 0;
  int64_t stride_bytes = 0;

  bool operator==(const RowTable&) const = default;
};

// One field of a dataset's samples.
struct RowField {
  size_t row_bytes = 0;
  std::vector<RowTable> tables;  // counted through: the rows of the second follow those of the first
  std::optional<std::span<const int64_t>>
      map;                         // sample -> row, one entry per sample; absent: sample i is row i
  std::vector<int64_t> ends = {};  // of each table, in rows counted through; empty: added up at each call
};

// RowField::ends of these tables.
std::vector<int64_t> table_ends(const std::vector<RowTable>& tables);

class RowMaker;

// The rows to copy for one field of one batch.
struct RowCopy {
  size_t field = 0;
  size_t row_bytes = 0;  // of the batch
  std::vector<const uint8_t*> rows;
  size_t piece_bytes =
      size_t{256} << 10;            // copied between two looks at other work: some 50 us; at least one row
  const RowMaker* maker = nullptr;  // makes them; null: they are copied as they are
};

// Writes the address of each wanted row to `addresses`, of as many elements as `indices`. Indices below zero
// count from the end. False when one is outside [-samples, samples), or its row is in no table: the addresses
// are then not valid.
bool locate_rows(const RowField& field, int64_t samples, std::span<const int64_t> indices,
                 const uint8_t** addresses);

// Copies the rows to `out`, one after the other; they must not overlap it.
void gather_rows(std::span<const uint8_t* const> rows, size_t row_bytes, uint8_t* out);

// The same, row i to the place at[i] of `out`: a batch is put together from several tables, each with its
// share of the places.
void gather_rows_to(std::span<const uint8_t* const> rows, size_t row_bytes, std::span<const int64_t> at,
                    uint8_t* out);

// Begins to load a row's first bytes into the cache, and how many rows ahead of the copied one to do that.
void fetch_row(const uint8_t* row, size_t bytes);
size_t rows_to_fetch_ahead(size_t row_bytes);

}  // namespace millrace::collate
