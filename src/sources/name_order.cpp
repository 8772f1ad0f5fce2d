// UTF-8 with surrogateescape (PEP 383) as sort keys; plain byte order where every name is ASCII.
#include "sources/name_order.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace millrace::sources {
namespace {

bool is_continuation(std::string_view text, size_t i) {
  return i < text.size() && (static_cast<uint8_t>(text[i]) & 0xC0) == 0x80;
}

// The length of the well-formed sequence at `i` and its code point; length 0 when it is none (Unicode 15,
// table 3-7).
std::pair<size_t, char32_t> decode_one(std::string_view text, size_t i) {
  const auto lead = static_cast<uint8_t>(text[i]);
  if (lead < 0x80) return {1, lead};
  const size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  char32_t code = lead & (0xFFu >> (length + 1));
  for (size_t k = 1; k < length; ++k) {
    if (!is_continuation(text, i + k)) return {0, 0};
    code = code << 6 | (static_cast<uint8_t>(text[i + k]) & 0x3Fu);
  }
  const bool too_long = (length == 3 && code < 0x800) || (length == 4 && (code < 0x10000 || code > 0x10FFFF));
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  return {too_long || surrogate ? 0 : length, code};
}

std::u32string code_points(std::string_view text) {
  std::u32string points;
  points.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const auto [length, code] = decode_one(text, i);
    points.push_back(length > 0 ? code : 0xDC00u + static_cast<uint8_t>(text[i]));
    i += std::max<size_t>(length, 1);
  }
  return points;
}

bool is_ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

}  // namespace

void sort_names(std::vector<std::string>& names) {
  if (std::all_of(names.begin(), names.end(), is_ascii)) {
    std::sort(names.begin(), names.end());
    return;
  }
  std::vector<std::pair<std::u32string, std::string>> keyed;
  keyed.reserve(names.size());
  for (std::string& name : names) {
    auto key = code_points(name);
    keyed.emplace_back(std::move(key), std::move(name));
  }
  std::sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < names.size(); ++i) names[i] = std::move(keyed[i].second);
}

}  // namespace millrace::sources
