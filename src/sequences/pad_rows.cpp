#include "sequences/pad_rows.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "millrace/error.h"

namespace millrace::sequences {
namespace {

template <class Number>
void fill_as(const uint8_t* value, size_t bytes, uint8_t* out) {
  Number number;
  std::memcpy(&number, value, sizeof number);
  std::fill_n(reinterpret_cast<Number*>(out), bytes / sizeof number, number);
}

void fill(const Padding& padding, size_t bytes, uint8_t* out) {
  switch (padding.value_bytes) {
    case 1: std::memset(out, *padding.value, bytes); return;
    case 2: return fill_as<uint16_t>(padding.value, bytes, out);
    case 4: return fill_as<uint32_t>(padding.value, bytes, out);
    case 8: return fill_as<uint64_t>(padding.value, bytes, out);
    default:
      for (size_t at = 0; at < bytes; at += padding.value_bytes)
        std::memcpy(out + at, padding.value, padding.value_bytes);
  }
}

}  // namespace

void pad_rows(std::span<const RaggedRow> rows, const Padding& padding, uint8_t* out, int64_t* mask) {
  const size_t row_bytes = static_cast<size_t>(padding.length) * padding.item_bytes;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto [data, items] = rows[i];
    if (items > padding.length)
      throw Error(ErrorKind::invalid_argument, "row " + std::to_string(i) + " has " + std::to_string(items) +
                                                   " items, more than the " + std::to_string(padding.length) +
                                                   " to pad to; cut it, or pad to more");
    const size_t bytes = static_cast<size_t>(items) * padding.item_bytes;
    uint8_t* const row = out + i * row_bytes;
    uint8_t* const first = padding.on_the_left ? row + (row_bytes - bytes) : row;
    if (bytes > 0) std::memcpy(first, data, bytes);
    fill(padding, row_bytes - bytes, padding.on_the_left ? row : row + bytes);
    if (mask) {
      int64_t* const marks = mask + i * static_cast<size_t>(padding.length);
      const int64_t before = padding.on_the_left ? padding.length - items : 0;
      std::fill_n(marks, padding.length, 0);
      std::fill_n(marks + before, items, 1);
    }
  }
}

}  // namespace millrace::sequences
