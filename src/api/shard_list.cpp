#include "api/shard_list.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>

#include "millrace/error.h"

namespace millrace::api {
namespace {

using Words = std::vector<std::string>;

std::string unescaped(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\' && at + 1 < text.size()) ++at;
    result += text[at];
  }
  return result;
}

// Calls `look(place, sign, depth)` for braces and commas without a backslash before them; `depth`: how many
// braces are open there, its own included. Ends when `look` returns true.
template <class Look>
void walk(std::string_view text, size_t start, const Look& look) {
  int depth = 0;
  for (size_t at = start; at < text.size(); ++at) {
    const char sign = text[at];
    if (sign == '\\') {
      ++at;
      continue;
    }
    if (sign != '{' && sign != '}' && sign != ',') continue;
    depth += sign == '{';
    if (look(at, sign, depth)) return;
    depth -= sign == '}';
  }
}

[[noreturn]] void fail_size(std::string_view text) {
  throw Error(ErrorKind::invalid_argument, "\"" + std::string(text) + "\" stands for more than " +
                                               std::to_string(kMostShards) + " shards; give fewer at once");
}

std::optional<int64_t> number_in(std::string_view text) {
  int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || read.ec != std::errc{} || read.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

bool is_letter(std::string_view text) {
  return text.size() == 1 && ((text[0] | 32) >= 'a' && (text[0] | 32) <= 'z');
}

bool is_padded(std::string_view number) {
  if (number.starts_with('-')) number.remove_prefix(1);
  return number.size() > 1 && number[0] == '0';
}

// Of numbers, as wide as the wider of the two where one is padded with zeros; or of letters.
std::optional<Words> range_in(std::string_view inside) {
  std::vector<std::string_view> parts;
  for (size_t at = 0;;) {
    const size_t dots = inside.find("..", at);
    parts.push_back(inside.substr(at, dots == std::string_view::npos ? dots : dots - at));
    if (dots == std::string_view::npos) break;
    at = dots + 2;
  }
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  const bool letters = is_letter(parts[0]) && is_letter(parts[1]);
  const auto first = letters ? std::optional<int64_t>(parts[0][0]) : number_in(parts[0]);
  const auto last = letters ? std::optional<int64_t>(parts[1][0]) : number_in(parts[1]);
  const auto step = parts.size() == 3 ? number_in(parts[2]) : std::optional<int64_t>(1);
  constexpr int64_t kFar = int64_t{1} << 61;
  if (!first || !last || !step) return std::nullopt;
  if (std::abs(*first) > kFar || std::abs(*last) > kFar || std::abs(*step) > kFar) fail_size(inside);
  const int64_t by = std::max<int64_t>(std::abs(*step), 1);
  if (std::abs(*last - *first) / by >= static_cast<int64_t>(kMostShards)) fail_size(inside);
  const size_t width = !letters && (is_padded(parts[0]) || is_padded(parts[1]))
                           ? std::max(parts[0].size(), parts[1].size())
                           : 0;
  Words words;
  for (int64_t code = *first; *first <= *last ? code <= *last : code >= *last;
       code += *first <= *last ? by : -by) {
    if (letters) {
      words.emplace_back(1, static_cast<char>(code));
      continue;
    }
    std::string digits = std::to_string(std::abs(code));
    const size_t sign = code < 0 ? 1 : 0;
    if (digits.size() + sign < width) digits.insert(0, width - sign - digits.size(), '0');
    words.push_back((code < 0 ? "-" : "") + digits);
  }
  return words;
}

// The words that braces around `inside` expand to; none if the braces are plain text.
Words options_in(std::string_view inside) {
  if (auto range = range_in(inside)) return std::move(*range);
  std::vector<size_t> commas;
  walk(inside, 0, [&](size_t at, char sign, int depth) {
    if (sign == ',' && depth == 0) commas.push_back(at);
    return false;
  });
  Words words;
  if (commas.empty()) return words;
  commas.push_back(inside.size());
  size_t begin = 0;
  for (const size_t end : commas) {
    for (std::string& word : expand_braces(inside.substr(begin, end - begin)))
      words.push_back(std::move(word));
    begin = end + 1;
  }
  return words;
}

}  // namespace

std::vector<std::string> expand_braces(std::string_view text) {
  constexpr size_t kNone = std::string_view::npos;
  size_t opening = kNone, closing = kNone;
  walk(text, 0, [&](size_t at, char sign, int) { return sign == '{' && (opening = at, true); });
  if (opening == kNone) return {unescaped(text)};
  walk(text, opening,
       [&](size_t at, char sign, int depth) { return sign == '}' && depth == 1 && (closing = at, true); });
  Words options{"{"};
  std::string_view rest = text.substr(opening + 1);
  if (closing != kNone) {
    const std::string_view inside = text.substr(opening + 1, closing - opening - 1);
    rest = text.substr(closing + 1);
    options = options_in(inside);
    if (options.empty())
      for (const std::string& word : expand_braces(inside)) options.push_back("{" + word + "}");
  }
  const std::string before = unescaped(text.substr(0, opening));
  const Words ends = expand_braces(rest);
  if (options.size() > kMostShards / ends.size()) fail_size(text);
  Words words;
  for (const std::string& option : options)
    for (const std::string& end : ends) words.push_back(before + option + end);
  return words;
}

std::vector<std::string> expand_shards(const std::vector<std::string>& shards) {
  std::vector<std::string> paths;
  for (const std::string& entry : shards)
    for (std::string& path : expand_braces(entry)) {
      if (path.empty())
        throw Error(ErrorKind::invalid_argument, "shard " + std::to_string(paths.size()) +
                                                     " has an empty name; give the path of a tar file");
      if (path.starts_with("file:")) path.erase(0, path.starts_with("file://") ? 7 : 5);
      if (path.starts_with("pipe:") || path.find("://") != std::string::npos)
        throw Error(ErrorKind::invalid_argument,
                    path +
                        " is no local file, and C++ reads shards from these only; copy it, or use "
                        "millrace.datasets.WebDataset in Python",
                    path);
      paths.push_back(std::move(path));
    }
  if (paths.empty())
    throw Error(ErrorKind::invalid_argument, "there are no shards: the list is empty; give one at least");
  return paths;
}

}  // namespace millrace::api
