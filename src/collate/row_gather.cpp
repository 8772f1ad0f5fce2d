#include "collate/row_gather.h"

#include <algorithm>
#include <cstring>

namespace millrace::collate {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kRowsAhead = 16;  // a core has about as many cache misses in flight
constexpr size_t kBytesAhead =
    8 << 10;  // of long rows fewer are fetched early: the hardware sees the rest coming

// Finds rows in several tables by the number of rows before and in each.
class Tables {
 public:
  explicit Tables(const RowField& field)
      : tables_(field.tables),
        counted_(field.ends.size() == tables_.size() ? std::vector<int64_t>() : table_ends(tables_)),
        ends_(counted_.empty() ? field.ends : counted_) {}
  int64_t rows() const { return ends_.empty() ? 0 : ends_.back(); }
  const uint8_t* address(int64_t row) const {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), row);
    const RowTable& table = tables_[static_cast<size_t>(end - ends_.begin())];
    return table.base + (row - (*end - table.rows)) * table.stride_bytes;
  }

 private:
  const std::vector<RowTable>& tables_;
  const std::vector<int64_t> counted_;
  const std::vector<int64_t>& ends_;
};

class OneTable {
 public:
  explicit OneTable(const RowTable& table) : table_(table) {}
  int64_t rows() const { return table_.rows; }
  const uint8_t* address(int64_t row) const { return table_.base + row * table_.stride_bytes; }

 private:
  const RowTable table_;
};

template <class AnyTables>
bool locate(const RowField& field, const AnyTables& tables, int64_t samples, std::span<const int64_t> indices,
            const uint8_t** addresses) {
  if (field.map && field.map->size() != static_cast<size_t>(samples)) return false;
  const int64_t* map = field.map ? field.map->data() : nullptr;
  const auto rows = static_cast<uint64_t>(tables.rows());
  for (const int64_t index : indices) {
    const int64_t sample = index < 0 ? index + samples : index;
    if (static_cast<uint64_t>(sample) >= static_cast<uint64_t>(samples)) return false;
    const int64_t row = map ? map[sample] : sample;
    if (static_cast<uint64_t>(row) >= rows) return false;
    *addresses++ = tables.address(row);
  }
  return true;
}

void prefetch(const uint8_t* row, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(row + at);
  __builtin_prefetch(row + bytes - 1);  // rows need not begin on a line
}

// kBytes: the row's size when it is known to the compiler, else 0.
template <size_t kBytes>
void gather(std::span<const uint8_t* const> rows, size_t row_bytes, uint8_t* out) {
  const size_t size = kBytes ? kBytes : row_bytes;
  const size_t fetched = std::min(size, kBytesAhead);
  const size_t ahead = rows_to_fetch_ahead(size);
  for (size_t i = 0; i < std::min(ahead, rows.size()); ++i) prefetch(rows[i], fetched);
  for (size_t i = 0; i < rows.size(); ++i, out += size) {
    if (i + ahead < rows.size()) prefetch(rows[i + ahead], fetched);
    std::memcpy(out, rows[i], size);
  }
}

template <size_t kBytes>
void scatter(std::span<const uint8_t* const> rows, size_t row_bytes, std::span<const int64_t> at,
             uint8_t* out) {
  const size_t size = kBytes ? kBytes : row_bytes;
  const size_t fetched = std::min(size, kBytesAhead);
  const size_t ahead = rows_to_fetch_ahead(size);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + ahead < rows.size()) prefetch(rows[i + ahead], fetched);
    std::memcpy(out + static_cast<size_t>(at[i]) * size, rows[i], size);
  }
}

}  // namespace

std::vector<int64_t> table_ends(const std::vector<RowTable>& tables) {
  std::vector<int64_t> ends;
  ends.reserve(tables.size());
  for (const RowTable& table : tables) ends.push_back((ends.empty() ? 0 : ends.back()) + table.rows);
  return ends;
}

void fetch_row(const uint8_t* row, size_t bytes) {
  if (bytes) prefetch(row, std::min(bytes, kBytesAhead));
}

size_t rows_to_fetch_ahead(size_t row_bytes) {
  return row_bytes ? std::clamp<size_t>(kBytesAhead / row_bytes, 1, kRowsAhead) : 1;
}

bool locate_rows(const RowField& field, int64_t samples, std::span<const int64_t> indices,
                 const uint8_t** addresses) {
  if (field.tables.size() == 1)
    return locate(field, OneTable(field.tables.front()), samples, indices, addresses);
  return locate(field, Tables(field), samples, indices, addresses);
}

void gather_rows(std::span<const uint8_t* const> rows, size_t row_bytes, uint8_t* out) {
  switch (row_bytes) {
    case 0: return;
    case 1: return gather<1>(rows, row_bytes, out);
    case 2: return gather<2>(rows, row_bytes, out);
    case 4: return gather<4>(rows, row_bytes, out);
    case 8: return gather<8>(rows, row_bytes, out);
    case 16: return gather<16>(rows, row_bytes, out);
    case 32: return gather<32>(rows, row_bytes, out);
    case 64: return gather<64>(rows, row_bytes, out);
    case 128: return gather<128>(rows, row_bytes, out);
    default: return gather<0>(rows, row_bytes, out);
  }
}

void gather_rows_to(std::span<const uint8_t* const> rows, size_t row_bytes, std::span<const int64_t> at,
                    uint8_t* out) {
  switch (row_bytes) {
    case 0: return;
    case 1: return scatter<1>(rows, row_bytes, at, out);
    case 2: return scatter<2>(rows, row_bytes, at, out);
    case 4: return scatter<4>(rows, row_bytes, at, out);
    case 8: return scatter<8>(rows, row_bytes, at, out);
    default: return scatter<0>(rows, row_bytes, at, out);
  }
}

}  // namespace millrace::collate
