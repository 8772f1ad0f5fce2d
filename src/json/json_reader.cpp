#include "json/json_reader.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "millrace/error.h"

namespace millrace::json {
namespace {

namespace dom = simdjson::dom;
using dom::element_type;

template <class T>
void put(std::vector<uint8_t>& to, const T& value) {
  const auto* from = reinterpret_cast<const uint8_t*>(&value);
  to.insert(to.end(), from, from + sizeof value);
}

void put_text(std::vector<uint8_t>& to, std::string_view text) {
  to.push_back('s');
  put(to, static_cast<uint64_t>(text.size()));
  to.insert(to.end(), text.begin(), text.end());
}

void put_events(std::vector<uint8_t>& to, const dom::element& value) {
  switch (value.type()) {
    case element_type::NULL_VALUE: to.push_back('n'); return;
    case element_type::BOOL: to.push_back(value.get_bool().value_unsafe() ? 't' : 'f'); return;
    case element_type::INT64: to.push_back('i'); return put(to, value.get_int64().value_unsafe());
    case element_type::UINT64: to.push_back('u'); return put(to, value.get_uint64().value_unsafe());
    case element_type::DOUBLE: to.push_back('d'); return put(to, value.get_double().value_unsafe());
    case element_type::STRING: return put_text(to, value.get_string().value_unsafe());
    case element_type::ARRAY: {
      const dom::array array = value.get_array().value_unsafe();
      to.push_back('[');
      const size_t count_at = to.size();
      put(to, uint64_t{0});
      uint64_t count = 0;  // simdjson's own counts end at 2^24
      for (const dom::element& element : array) {
        put_events(to, element);
        ++count;
      }
      std::memcpy(to.data() + count_at, &count, sizeof count);
      return;
    }
    case element_type::OBJECT: {
      const dom::object object = value.get_object().value_unsafe();
      to.push_back('{');
      const size_t count_at = to.size();
      put(to, uint64_t{0});
      uint64_t count = 0;
      for (const auto& [key, element] : object) {
        put_text(to, key);
        put_events(to, element);
        ++count;
      }
      std::memcpy(to.data() + count_at, &count, sizeof count);
      return;
    }
  }
}

template <class T>
bool store_int(const dom::element& value, uint8_t* into) {
  if (value.type() != element_type::INT64) return false;  // UINT64 is above INT64_MAX
  const int64_t number = value.get_int64().value_unsafe();
  if (number < std::numeric_limits<T>::min() || number > std::numeric_limits<T>::max()) return false;
  const T stored = static_cast<T>(number);
  std::memcpy(into, &stored, sizeof stored);
  return true;
}

template <class T>
bool store_float(const dom::element& value, uint8_t* into) {
  double number;
  switch (value.type()) {
    case element_type::DOUBLE: number = value.get_double().value_unsafe(); break;
    case element_type::INT64: number = static_cast<double>(value.get_int64().value_unsafe()); break;
    case element_type::UINT64: number = static_cast<double>(value.get_uint64().value_unsafe()); break;
    default: return false;
  }
  const T stored = static_cast<T>(number);
  std::memcpy(into, &stored, sizeof stored);
  return true;
}

bool store_bool(const dom::element& value, uint8_t* into) {
  if (value.type() != element_type::BOOL) return false;
  *into = value.get_bool().value_unsafe() ? 1 : 0;
  return true;
}

using Store = bool (*)(const dom::element&, uint8_t*);

Store store_of(base::DType type) {
  switch (type) {
    case base::DType::b8: return store_bool;
    case base::DType::u8: return store_int<uint8_t>;
    case base::DType::i8: return store_int<int8_t>;
    case base::DType::i16: return store_int<int16_t>;
    case base::DType::i32: return store_int<int32_t>;
    case base::DType::i64: return store_int<int64_t>;
    case base::DType::f32: return store_float<float>;
    case base::DType::f64: return store_float<double>;
    default: return nullptr;
  }
}

bool is_ascii(std::string_view text) {
  char all = 0;
  for (const char c : text)
    all = static_cast<char>(all | c);  // without a branch, so that it is done many at a time
  return (all & 0x80) == 0;
}

// Nested arrays of exactly this shape, row-major.
bool store_shape(const dom::element& value, std::span<const int64_t> shape, Store store, size_t element_bytes,
                 uint8_t*& into) {
  if (shape.empty()) {
    if (!store(value, into)) return false;
    into += element_bytes;
    return true;
  }
  if (value.type() != element_type::ARRAY) return false;
  int64_t left = shape.front();
  const dom::array array = value.get_array().value_unsafe();
  for (const dom::element& element : array)
    if (left-- == 0 || !store_shape(element, shape.subspan(1), store, element_bytes, into)) return false;
  return left == 0;
}

// The keys that lead to fields, as a tree.
struct Node {
  std::vector<std::pair<std::string, size_t>> children;  // key -> node
  std::vector<size_t> fields;                            // with a path that ends here
  std::vector<size_t> below;                             // fields with a path that goes on from here
};

}  // namespace

size_t json_row_bytes(const JsonField& field) {
  size_t bytes = base::dtype_bytes(field.type);
  for (const int64_t size : field.shape)
    bytes = base::checked_mul(bytes, static_cast<size_t>(size), "a field's shape");
  return bytes;
}

struct JsonReader::Work {
  std::shared_ptr<const std::vector<JsonField>> fields;
  std::vector<Store> stores;
  std::vector<size_t> row_bytes;
  std::vector<Node> nodes{1};
  std::vector<uint8_t> found;  // by field
  bool closed = false;
  dom::parser parser;

  void add(size_t field) {
    size_t node = 0;
    for (const std::string& key : (*fields)[field].path) {
      nodes[node].below.push_back(field);
      auto& children = nodes[node].children;
      auto child = std::find_if(children.begin(), children.end(),
                                [&](const auto& known) { return known.first == key; });
      if (child != children.end()) {
        node = child->second;
      } else {
        children.emplace_back(key, nodes.size());
        node = nodes.size();
        nodes.emplace_back();
      }
    }
    nodes[node].fields.push_back(field);
  }

  bool store(const dom::element& value, size_t number, size_t row, JsonColumn& column) {
    const JsonField& field = (*fields)[number];
    if (field.kind != JsonKind::object && value.type() == element_type::NULL_VALUE) {
      found[number] = 0;
      return true;
    }
    found[number] = 1;
    if (field.kind == JsonKind::number) {
      uint8_t* into = column.rows + row * row_bytes[number];
      return store_shape(value, field.shape, stores[number], base::dtype_bytes(field.type), into);
    }
    const size_t begin = column.bytes.size();
    bool ascii = false;
    if (field.kind == JsonKind::text) {
      if (value.type() != element_type::STRING) return false;
      const std::string_view text = value.get_string().value_unsafe();
      column.bytes.insert(column.bytes.end(), text.begin(), text.end());
      ascii = is_ascii(text);
    } else if (field.kind == JsonKind::object) {
      put_events(column.bytes, value);
    } else {
      if (value.type() != element_type::ARRAY) return false;
      const dom::array array = value.get_array().value_unsafe();
      for (const dom::element& element : array) {
        column.bytes.resize(column.bytes.size() + row_bytes[number]);
        uint8_t* into = column.bytes.data() + column.bytes.size() - row_bytes[number];
        if (!store_shape(element, field.shape, stores[number], base::dtype_bytes(field.type), into))
          return false;
      }
    }
    column.values[row] = {begin, column.bytes.size() - begin, ascii};
    return true;
  }

  bool store_at(const dom::element& value, size_t number, size_t row, std::span<JsonColumn> columns) {
    const Node& node = nodes[number];
    for (const size_t field : node.fields)
      if (!store(value, field, row, columns[field])) return false;
    if (node.children.empty()) return true;
    for (const size_t field : node.below)
      found[field] = 0;  // what an equal key before this one had does not count
    if (value.type() != element_type::OBJECT) return true;
    size_t next = 0;  // keys mostly come in the order of the fields
    const size_t count = node.children.size();
    const dom::object object = value.get_object().value_unsafe();
    for (const auto& [key, element] : object) {
      size_t tried = 0;
      for (; tried < count; ++tried) {
        const size_t child = next + tried < count ? next + tried : next + tried - count;
        if (node.children[child].first != key) continue;
        if (!store_at(element, node.children[child].second, row, columns)) return false;
        next = child + 1 < count ? child + 1 : 0;
        break;
      }
      if (closed && tried == count) return false;
    }
    return true;
  }

  bool fill_in(size_t row, std::span<JsonColumn> columns) {
    for (size_t number = 0; number < fields->size(); ++number) {
      if (found[number] != 0) continue;
      const JsonField& field = (*fields)[number];
      if (!field.instead) return false;
      const std::vector<uint8_t>& bytes = *field.instead;
      JsonColumn& column = columns[number];
      if (field.kind == JsonKind::number) {
        std::copy(bytes.begin(), bytes.end(), column.rows + row * row_bytes[number]);
      } else {
        column.values[row] = {column.bytes.size(), bytes.size(), false};
        column.bytes.insert(column.bytes.end(), bytes.begin(), bytes.end());
      }
    }
    return true;
  }
};

JsonReader::JsonReader(std::shared_ptr<const std::vector<JsonField>> fields, bool closed)
    : work_(std::make_unique<Work>()) {
  work_->closed = closed;
  for (size_t i = 0; i < fields->size(); ++i) {
    const JsonField& field = (*fields)[i];
    const bool numbers = field.kind == JsonKind::number || field.kind == JsonKind::list;
    work_->stores.push_back(numbers ? store_of(field.type) : nullptr);
    if (numbers && work_->stores.back() == nullptr)
      throw Error(ErrorKind::invalid_argument,
                  std::string("JSON has no ") + base::dtype_name(field.type) +
                      "; take bool, uint8, int8, int16, int32, int64, float32 or float64");
    work_->row_bytes.push_back(numbers ? json_row_bytes(field) : 0);
    if (field.kind == JsonKind::number && field.instead && field.instead->size() != work_->row_bytes.back())
      throw Error(ErrorKind::invalid_argument,
                  "the default of a field should have " + std::to_string(work_->row_bytes.back()) +
                      " bytes, but has " + std::to_string(field.instead->size()));
  }
  work_->found.resize(fields->size());
  work_->fields = std::move(fields);
  for (size_t i = 0; i < work_->fields->size(); ++i) work_->add(i);
}

JsonReader::~JsonReader() = default;
JsonReader::JsonReader(JsonReader&&) noexcept = default;

bool JsonReader::read(const uint8_t* line, size_t bytes, size_t row, std::span<JsonColumn> columns) {
  Work& work = *work_;
  if (bytes > simdjson::SIMDJSON_MAXSIZE_BYTES) return false;
  if (work.parser.capacity() < bytes || work.parser.max_depth() != kMostDepth) {
    const size_t room = std::clamp<size_t>(bytes * 2, 4096, simdjson::SIMDJSON_MAXSIZE_BYTES);
    if (work.parser.allocate(room, kMostDepth)) return false;
  }
  dom::element root;
  if (work.parser.parse(line, bytes, false).get(root)) return false;
  std::fill(work.found.begin(), work.found.end(), uint8_t{0});
  return work.store_at(root, 0, row, columns) && work.fill_in(row, columns);
}

}  // namespace millrace::json
