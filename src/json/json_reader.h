// JsonReader: lines of JSON into columns, by simdjson.
//
// What it takes is read as RFC 8259 has it, in full, fields that are not wanted included: the last of several
// equal keys counts, numbers are rounded correctly, whole numbers keep their 64 bits. It refuses, without
// saying why, lines with a fault, and lines that other readers of JSON may read otherwise (NaN, integers
// beyond 64 bits, halves of surrogate pairs, more than kMostDepth levels): the caller reads a refused line
// again. A value of another kind than its field's is refused, too: 1.0 is no int, 1 no bool, but an int is a
// float.
// Memory: about ten times the longest line. One thread at a time; the schema is shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "json/json_fields.h"

namespace millrace::json {

class JsonReader {
 public:
  static constexpr size_t kPadding = 64;  // readable bytes after each line
  static constexpr size_t kMostDepth = 512;

  // `closed`: objects on the way to fields have no other keys; a line with one is refused. Throws
  // Error(invalid_argument) for a type that a field cannot have.
  explicit JsonReader(std::shared_ptr<const std::vector<JsonField>> fields, bool closed = false);
  ~JsonReader();
  JsonReader(JsonReader&&) noexcept;

  // One line, of at most 4 GiB, as row `row` of each column. False: refused; the row's content then means
  // nothing.
  bool read(const uint8_t* line, size_t bytes, size_t row, std::span<JsonColumn> columns);

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

// Bytes of one value of kind number, or of one element of a list.
size_t json_row_bytes(const JsonField& field);

}  // namespace millrace::json
