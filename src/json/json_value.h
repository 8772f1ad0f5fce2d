// Value: JSON in memory, for documents that are small and kept, such as states: a tree of plain values.
//
// Objects keep the order of their entries; looking a key up walks over them. parse() takes one document of at
// most kMostDepth levels, by simdjson; text() writes it as Python's json.dumps() does, by default or with
// compact separators and sorted keys: ASCII, numbers as Python's repr. A value type; any thread, each its
// own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace millrace::json {

inline constexpr int kMostDepth = 64;

class Value {
 public:
  using Array = std::vector<Value>;
  using Entry = std::pair<std::string, Value>;
  using Object = std::vector<Entry>;

  Value() = default;  // null
  Value(std::nullptr_t) {}
  Value(bool value) : value_(value) {}
  Value(int value) : value_(int64_t{value}) {}
  Value(int64_t value) : value_(value) {}
  Value(uint64_t value);
  Value(std::optional<int64_t> value) {  // null where there is none
    if (value) value_ = *value;
  }
  Value(double value) : value_(value) {}
  Value(const char* value) : value_(std::string(value)) {}
  Value(std::string value) : value_(std::move(value)) {}
  Value(Array value) : value_(std::move(value)) {}
  Value(Object value) : value_(std::move(value)) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  const bool* boolean() const {
    return std::get_if<bool>(&value_);
  }  // each: null for a value of another kind
  const int64_t* integer() const { return std::get_if<int64_t>(&value_); }
  const std::string* text() const { return std::get_if<std::string>(&value_); }
  const Array* array() const { return std::get_if<Array>(&value_); }
  const Object* object() const { return std::get_if<Object>(&value_); }

  // An object's entry; null when there is none, or this is no object.
  const Value* find(std::string_view key) const;
  Value* find(std::string_view key);
  // Puts an entry into an object, at the end or in the place of the one that there is. Null becomes an
  // object.
  void set(std::string_view key, Value value);
  void erase(std::string_view key);

  bool operator==(const Value&) const = default;

  enum class Style : uint8_t { python, canonical };  // json.dumps(v); with sorted keys and without spaces
  std::string written(Style style = Style::python) const;

  // Throws Error(invalid_argument) with the fault and its place.
  static Value parse(std::string_view text);

 private:
  // Whole numbers above int64 are kept apart, as JSON that came from elsewhere may have them.
  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, Array, Object> value_;
  void write(std::string& out, Style style) const;
};

// What written() is made of: text (UTF-8) in quotation marks, in ASCII; a number as Python's repr.
void write_text(std::string& out, std::string_view text);
void write_number(std::string& out, double number);

}  // namespace millrace::json
