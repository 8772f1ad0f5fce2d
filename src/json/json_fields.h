// JsonField: a value wanted of each line of JSON. JsonColumn: the values that were read. Plain data between
// JsonReader and the code that makes batches.
//
// A field of numbers fills rows of memory that the caller has; texts, objects and lists of any length go
// one after another into bytes of the column's own. Objects are written as events, in the order of the text,
// for a builder of another language's values:
//   n t f  null, true, false     i u d + 8 bytes  int64, uint64, double     s + 8 bytes length + UTF-8
//   [ + 8 bytes count + values   { + 8 bytes count + (s, value) pairs, keys that are there twice included
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace millrace::json {

enum class JsonKind : uint8_t {
  number,  // of a fixed shape: one row each
  list,    // of numbers, as many as there are: the first dimension is open
  text,
  object,  // any value
};

struct JsonField {
  std::vector<std::string> path;  // keys, outermost first; none: the whole line, of kind object
  JsonKind kind = JsonKind::object;
  base::DType type = base::DType::i64;  // of numbers: b8, u8, i8, i16, i32, i64, f32 or f64
  std::vector<int64_t> shape;           // of a number field's value; of a list's elements
  // In place of a value that is missing, or null where the kind is not object: the row's, list's or text's
  // bytes, or an object's events.
  std::optional<std::vector<uint8_t>> instead;
};

struct JsonColumn {
  struct Value {
    size_t begin = 0, bytes = 0;
    bool ascii = false;  // of a text
  };
  uint8_t* rows = nullptr;     // kind number: row r at rows + r * row_bytes
  std::vector<uint8_t> bytes;  // other kinds
  std::vector<Value> values;   // other kinds: by row

  void reset(size_t row_count) {
    bytes.clear();
    values.assign(row_count, {});
  }
};

}  // namespace millrace::json
