#include "collate/interleaved_rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/checked.h"

namespace millrace::collate {
namespace {

// Rows that are copied together, one column after the other: the first cache holds them and their copies.
constexpr size_t kRowsAtOnce = 32;
constexpr size_t kBytesAtOnce = size_t{16} << 10;

constexpr size_t kCacheLine = 64;

// As row_gather.h's fetch_row(), where a call would take longer than the two or three instructions that it
// is.
inline void fetch(const uint8_t* row, size_t bytes) {
  for (size_t at = 0; at < std::min(bytes, kBytesAtOnce); at += kCacheLine) __builtin_prefetch(row + at);
  __builtin_prefetch(row + bytes - 1);
}

size_t rows_at_once(size_t row_bytes) {
  return std::clamp<size_t>(kBytesAtOnce / std::max<size_t>(row_bytes, 1), 4, kRowsAtOnce);
}

// Calls `copy` with the size of a value as a constant where that makes copying it one or two instructions.
template <class Copy>
void with_size(size_t bytes, Copy copy) {
  switch (bytes) {
    case 1: return copy([] { return size_t{1}; });
    case 2: return copy([] { return size_t{2}; });
    case 4: return copy([] { return size_t{4}; });
    case 8: return copy([] { return size_t{8}; });
    case 16: return copy([] { return size_t{16}; });
    default: return copy([bytes] { return bytes; });
  }
}

// Row i to `place(i)` of each column.
template <class Place>
void deal(std::span<const uint8_t* const> rows, size_t row_bytes, std::span<const DealtColumn> columns,
          Place place) {
  const size_t step = rows_at_once(row_bytes);
  for (size_t i = 0; i < std::min(step, rows.size()); ++i) fetch(rows[i], row_bytes);
  for (size_t first = 0; first < rows.size(); first += step) {
    const size_t end = std::min(first + step, rows.size());
    for (size_t i = end; i < std::min(end + step, rows.size()); ++i) fetch(rows[i], row_bytes);
    for (const DealtColumn& column : columns)
      with_size(column.bytes, [=, out = column.out, offset = column.offset](auto size) {
        for (size_t i = first; i < end; ++i) std::memcpy(out + place(i) * size(), rows[i] + offset, size());
      });
  }
}

}  // namespace

InterleavedRows::InterleavedRows(std::span<const DenseColumn> columns, int64_t rows)
    : rows_(rows), offsets_(columns.size()) {
  std::vector<size_t> order(columns.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // The values lie without gaps: each size is a multiple of its own column's alignment, and so of those that
  // follow.
  std::stable_sort(order.begin(), order.end(),
                   [&columns](size_t a, size_t b) { return columns[a].align > columns[b].align; });
  for (const size_t i : order) {
    offsets_[i] = stride_bytes_;
    stride_bytes_ += columns[i].value_bytes;
  }
  if (!order.empty()) {
    const size_t align = columns[order.front()].align;
    stride_bytes_ = (stride_bytes_ + align - 1) / align * align;
  }
  memory_ = core::take_block(base::checked_mul(stride_bytes_, static_cast<size_t>(rows), "table"));
  const size_t step = rows_at_once(stride_bytes_), count = static_cast<size_t>(rows);
  for (size_t first = 0; first < count; first += step) {
    uint8_t* const to = memory_.data() + first * stride_bytes_;
    const size_t some = std::min(step, count - first);
    for (size_t i = 0; i < columns.size(); ++i)
      with_size(columns[i].value_bytes,
                [=, from = columns[i].data, out = to + offsets_[i], stride = stride_bytes_](auto size) {
                  for (size_t row = 0; row < some; ++row)
                    std::memcpy(out + row * stride, from + (first + row) * size(), size());
                });
  }
}

InterleavedRows::~InterleavedRows() { core::cache_block(std::move(memory_)); }

void deal_rows(std::span<const uint8_t* const> rows, size_t row_bytes, std::span<const DealtColumn> columns) {
  deal(rows, row_bytes, columns, [](size_t i) { return i; });
}

void deal_rows_to(std::span<const uint8_t* const> rows, size_t row_bytes, std::span<const int64_t> places,
                  std::span<const DealtColumn> columns) {
  deal(rows, row_bytes, columns, [places](size_t i) { return static_cast<size_t>(places[i]); });
}

}  // namespace millrace::collate
