#include "collate/chunk_rows.h"

#include <algorithm>
#include <string>
#include <utility>

#include "millrace/error.h"

namespace millrace::collate {
namespace {

constexpr size_t kMostValueBytes = 64;             // a cache miss is a small part of a larger value's cost
constexpr size_t kLeastBytes = size_t{128} << 10;  // less than this stays in the cache

bool can_be_interleaved(const ChunkRows::Column& column) {
  return column.row_bytes > 0 && column.row_bytes <= kMostValueBytes &&
         column.stride_bytes == static_cast<int64_t>(column.row_bytes);
}

[[noreturn]] void throw_no_row(int64_t rows) {
  throw Error(ErrorKind::out_of_range, "a row is outside the array's " + std::to_string(rows));
}

}  // namespace

ChunkRows::ChunkRows(std::vector<Column> columns, int64_t rows, bool in_any_order)
    : rows_(rows), columns_(std::move(columns)) {
  std::vector<DenseColumn> dense;
  size_t row_bytes = 0;
  for (size_t i = 0; in_any_order && i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    if (!can_be_interleaved(column)) continue;
    parts_.push_back({i, 0, column.row_bytes});
    dense.push_back({column.data, column.row_bytes, column.item_bytes});
    row_bytes += column.row_bytes;
  }
  if (dense.size() < 2 || row_bytes * static_cast<size_t>(rows) < kLeastBytes) {
    parts_.clear();
  } else {
    interleaved_.emplace(dense, rows);
    for (size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].offset = interleaved_->offsets()[i];
      columns_[parts_[i].column].data = interleaved_->data() + parts_[i].offset;
      columns_[parts_[i].column].stride_bytes = static_cast<int64_t>(interleaved_->stride_bytes());
    }
  }
  for (size_t i = 0; i < columns_.size(); ++i)
    if (!is_interleaved(i))
      apart_.push_back(
          {i, {columns_[i].row_bytes, {{columns_[i].data, rows, columns_[i].stride_bytes}}, {}}});
}

bool ChunkRows::is_interleaved(size_t column) const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [column](const Part& part) { return part.column == column; });
}

void RowDealer::copy(std::span<const ChunkShare> shares, size_t size, std::span<uint8_t* const> out) {
  const ChunkRows* like = nullptr;
  for (const ChunkShare& share : shares) {
    copy_apart(share, out);
    const auto& from = share.chunk->interleaved_;
    if (!from || share.rows.empty()) continue;
    if (like == nullptr || like->parts_ != share.chunk->parts_) {
      if (like != nullptr) deal(*like, out);
      like = share.chunk;
      dealt_.assign(size, nullptr);
    }
    const int64_t rows = share.chunk->rows();
    for (size_t i = 0; i < share.rows.size(); ++i) {
      const int64_t row = share.rows[i] < 0 ? share.rows[i] + rows : share.rows[i];
      if (static_cast<uint64_t>(row) >= static_cast<uint64_t>(rows)) throw_no_row(rows);
      dealt_[static_cast<size_t>(share.places[i])] =
          from->data() + static_cast<size_t>(row) * from->stride_bytes();
    }
  }
  if (like != nullptr) deal(*like, out);
}

void RowDealer::copy_apart(const ChunkShare& share, std::span<uint8_t* const> out) {
  addresses_.resize(share.rows.size());
  for (const auto& [column, field] : share.chunk->apart_) {
    if (!locate_rows(field, share.chunk->rows(), share.rows, addresses_.data()))
      throw_no_row(share.chunk->rows());
    gather_rows_to(addresses_, field.row_bytes, share.places, out[column]);
  }
}

// In the order of their places, so that each column is written from front to back; places of other shares are
// left out.
void RowDealer::deal(const ChunkRows& like, std::span<uint8_t* const> out) {
  const size_t row_bytes = like.interleaved_->stride_bytes();
  columns_.clear();
  for (const auto& [column, offset, bytes] : like.parts_) columns_.push_back({offset, bytes, out[column]});
  if (std::find(dealt_.begin(), dealt_.end(), nullptr) == dealt_.end()) {
    deal_rows(dealt_, row_bytes, columns_);
    return;
  }
  places_.clear();
  for (size_t place = 0; place < dealt_.size(); ++place)
    if (dealt_[place] != nullptr) {
      dealt_[places_.size()] = dealt_[place];
      places_.push_back(static_cast<int64_t>(place));
    }
  deal_rows_to({dealt_.data(), places_.size()}, row_bytes, places_, columns_);
}

}  // namespace millrace::collate
