#include "json/json_value.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>

#include "millrace/error.h"

namespace millrace::json {
namespace {

namespace dom = simdjson::dom;

Value value_of(const dom::element& from) {
  switch (from.type()) {
    case dom::element_type::NULL_VALUE: return {};
    case dom::element_type::BOOL: return from.get_bool().value_unsafe();
    case dom::element_type::INT64: return from.get_int64().value_unsafe();
    case dom::element_type::UINT64: return from.get_uint64().value_unsafe();
    case dom::element_type::DOUBLE: return from.get_double().value_unsafe();
    case dom::element_type::STRING: return std::string(from.get_string().value_unsafe());
    case dom::element_type::ARRAY: {
      const dom::array items = from.get_array().value_unsafe();
      Value::Array found;
      for (const dom::element& element : items) found.push_back(value_of(element));
      return found;
    }
    case dom::element_type::OBJECT: {
      const dom::object entries = from.get_object().value_unsafe();
      Value::Object found;
      for (const auto& [key, element] : entries) found.emplace_back(std::string(key), value_of(element));
      return found;
    }
    default: break;
  }
  throw Error(ErrorKind::invalid_argument, "the JSON has a number of more than 64 bits");
}

// Reads the code point at text[at] and moves `at` past it; bytes that are no UTF-8 count as U+FFFD.
uint32_t code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(at++);
  if (first < 0x80) return first;
  const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  if (first < 0xC2 || first > 0xF4 || at + static_cast<size_t>(more) > text.size()) return 0xFFFD;
  uint32_t point = first & (0x3Fu >> more);
  for (int i = 0; i < more; ++i) {
    if ((byte(at) & 0xC0) != 0x80) return 0xFFFD;
    point = point << 6 | (byte(at++) & 0x3Fu);
  }
  return point;
}

void write_escape(std::string& out, uint32_t unit) {
  char text[8];
  std::snprintf(text, sizeof text, "\\u%04x", unit);
  out += text;
}

}  // namespace

void write_text(std::string& out, std::string_view text) {
  out += '"';
  for (size_t at = 0; at < text.size();) {
    const uint32_t point = code_point(text, at);
    switch (point) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\f': out += "\\f"; break;
      case '\b': out += "\\b"; break;
      default:
        if (point >= ' ' && point < 0x7F) {
          out += static_cast<char>(point);
        } else if (point < 0x10000) {
          write_escape(out, point);
        } else {
          write_escape(out, 0xD800 + ((point - 0x10000) >> 10));
          write_escape(out, 0xDC00 + ((point - 0x10000) & 0x3FF));
        }
    }
  }
  out += '"';
}

// As Python's repr: the fewest digits that read as the same number, with an exponent below 1e-4 and from 1e16
// on.
void write_number(std::string& out, double number) {
  if (std::isnan(number)) return void(out += "NaN");
  if (std::isinf(number)) return void(out += number < 0 ? "-Infinity" : "Infinity");
  const double size = std::abs(number);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, number,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  const std::string_view written(text, static_cast<size_t>(end.ptr - text));
  out += written;
  if (plain && written.find('.') == std::string_view::npos) out += ".0";
}

Value::Value(uint64_t value) {
  if (std::in_range<int64_t>(value))
    value_ = static_cast<int64_t>(value);
  else
    value_ = value;
}

const Value* Value::find(std::string_view key) const {
  const Object* const entries = object();
  if (entries == nullptr) return nullptr;
  const auto found =
      std::find_if(entries->begin(), entries->end(), [&](const Entry& e) { return e.first == key; });
  return found == entries->end() ? nullptr : &found->second;
}

Value* Value::find(std::string_view key) { return const_cast<Value*>(std::as_const(*this).find(key)); }

void Value::set(std::string_view key, Value value) {
  if (is_null()) value_ = Object{};
  if (Value* const there = find(key))
    *there = std::move(value);
  else
    std::get<Object>(value_).emplace_back(std::string(key), std::move(value));
}

void Value::erase(std::string_view key) {
  if (auto* const entries = std::get_if<Object>(&value_))
    std::erase_if(*entries, [&](const Entry& e) { return e.first == key; });
}

void Value::write(std::string& out, Style style) const {
  const bool sorted = style == Style::canonical;
  const char* const comma = sorted ? "," : ", ";
  const char* const colon = sorted ? ":" : ": ";
  if (is_null()) {
    out += "null";
  } else if (const bool* const flag = boolean()) {
    out += *flag ? "true" : "false";
  } else if (const int64_t* const number = integer()) {
    out += std::to_string(*number);
  } else if (const auto* const large = std::get_if<uint64_t>(&value_)) {
    out += std::to_string(*large);
  } else if (const auto* const real = std::get_if<double>(&value_)) {
    write_number(out, *real);
  } else if (const std::string* const letters = text()) {
    write_text(out, *letters);
  } else if (const Array* const items = array()) {
    out += '[';
    for (size_t i = 0; i < items->size(); ++i) {
      if (i > 0) out += comma;
      (*items)[i].write(out, style);
    }
    out += ']';
  } else {
    std::vector<const Entry*> entries;
    for (const Entry& entry : *object()) entries.push_back(&entry);
    // By bytes of UTF-8, which is the order of code points, Python's.
    if (sorted)
      std::sort(entries.begin(), entries.end(),
                [](const Entry* a, const Entry* b) { return a->first < b->first; });
    out += '{';
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out += comma;
      write_text(out, entries[i]->first);
      out += colon;
      entries[i]->second.write(out, style);
    }
    out += '}';
  }
}

std::string Value::written(Style style) const {
  std::string out;
  write(out, style);
  return out;
}

Value Value::parse(std::string_view text) {
  dom::parser parser;
  dom::element root;
  auto failure = parser.allocate(text.size(), kMostDepth);
  if (failure == simdjson::SUCCESS) failure = parser.parse(text.data(), text.size()).get(root);
  if (failure != simdjson::SUCCESS)
    throw Error(ErrorKind::invalid_argument,
                std::string("this is no JSON document: ") + simdjson::error_message(failure));
  return value_of(root);
}

}  // namespace millrace::json
