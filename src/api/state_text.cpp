#include "api/state_text.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/zlib_bytes.h"
#include "millrace/error.h"

namespace millrace::api {
namespace {

using json::Value;

constexpr std::string_view kKey = "checksum";
constexpr size_t kLong = 256;  // letters of a text that a checksum has only the sum of

std::string sum_of(std::string_view text) {
  return io::crc32_text({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

size_t letters_of(std::string_view text) {
  size_t count = 0;
  for (const char byte : text) count += (static_cast<uint8_t>(byte) & 0xC0) != 0x80;
  return count;
}

// With a few letters in the place of each long text.
Value shortened(const Value& value) {
  if (const std::string* const text = value.text()) {
    if (text->size() < kLong || letters_of(*text) < kLong) return value;
    using std::string_literals::operator""s;
    return "\0text "s + std::to_string(letters_of(*text)) + " " + sum_of(*text);
  }
  if (const Value::Array* const items = value.array()) {
    Value::Array result;
    for (const Value& item : *items) result.push_back(shortened(item));
    return result;
  }
  if (const Value::Object* const entries = value.object()) {
    Value::Object result;
    for (const auto& [key, inner] : *entries) result.emplace_back(key, shortened(inner));
    return result;
  }
  return value;
}

std::string checksum_of(const Value& state) {
  return sum_of(shortened(state).written(Value::Style::canonical));
}

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string base64(std::span<const uint8_t> bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t j = 0; j < 3; ++j) word = word << 8 | (j < count ? bytes[i + j] : 0u);
    for (size_t j = 0; j < 4; ++j) text += j <= count ? kLetters[word >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

std::optional<std::vector<uint8_t>> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t word = 0;
    size_t count = 3;
    for (size_t j = 0; j < 4; ++j) {
      const bool padding = text[i + j] == '=' && i + 4 == text.size() && j >= 2;
      const size_t value = padding ? 0 : kLetters.find(text[i + j]);
      if (value == std::string_view::npos || (!padding && count < 3)) return std::nullopt;
      if (padding) --count;
      word = word << 6 | static_cast<uint32_t>(value);
    }
    for (size_t j = 0; j < count; ++j) bytes.push_back(static_cast<uint8_t>(word >> (16 - 8 * j)));
  }
  return bytes;
}

}  // namespace

Value with_checksum(const Value& state) {
  std::string sum = checksum_of(state);
  for (const auto& [key, inner] : *state.object()) sum += " " + key;
  Value::Object result{{std::string(kKey), std::move(sum)}};
  result.insert(result.end(), state.object()->begin(), state.object()->end());
  return result;
}

Value without_checksum(const Value& state, std::string_view whose) {
  const Value* const then = state.find(kKey);
  Value rest = state;
  rest.erase(kKey);
  if (then == nullptr) return rest;
  const std::string text = then->text() != nullptr ? *then->text() : "";
  Value named = Value::Object{};
  size_t at = text.find(' ');
  const std::string number = text.substr(0, at);
  while (at != std::string::npos) {
    const size_t end = text.find(' ', at + 1);
    const std::string key = text.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    if (const Value* const inner = rest.find(key)) named.set(key, *inner);
    at = end;
  }
  if (const std::string now = checksum_of(named); number != now)
    throw StateError(std::string(whose) +
                     " is damaged, or was changed after state() gave it: its checksum is " +
                     number.substr(0, 40) + ", and what it holds has " + now + "; load another one");
  return rest;
}

std::string packed_generator(const samplers::TorchGenerator& generator) {
  return base64(io::zlib_packed(generator.state(), 1));
}

void put_back(samplers::TorchGenerator& generator, std::string_view text) {
  try {
    const auto packed = from_base64(text);
    if (!packed) throw Error(ErrorKind::corrupt_data, "it is no base64");
    generator.set_state(io::zlib_unpacked(*packed, samplers::TorchGenerator::kStateBytes));
  } catch (const Error& error) {
    throw StateError(std::string("the state of a random generator cannot be read (") + error.what() +
                     "); the saved state is damaged");
  }
}

}  // namespace millrace::api
