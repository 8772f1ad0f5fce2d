// Ragged rows as one padded block.
//
// Rows are borrowed and may be of any integer or floating type, all of one; they are copied, not converted.
// Any thread. A mask says which elements are data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace::sequences {

struct RaggedRow {
  const uint8_t* data = nullptr;
  int64_t items = 0;
};

struct Padding {
  int64_t length = 0;              // items of a row of the block
  size_t item_bytes = 0;           // of one item, which may be a row of numbers itself
  size_t value_bytes = 0;          // of one number; item_bytes is a multiple
  const uint8_t* value = nullptr;  // one number, which fills padding
  bool on_the_left = false;
};

// out: rows x length x item_bytes. mask: rows x length, 1 where there is data; null: not wanted. Throws
// Error(invalid_argument) for a row longer than the length.
void pad_rows(std::span<const RaggedRow> rows, const Padding& padding, uint8_t* out, int64_t* mask);

}  // namespace millrace::sequences
