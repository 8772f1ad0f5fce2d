// Lists of shards, written short, as millrace.datasets.WebDataset reads them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace::api {

// The words that `text` expands to, in a shell's order: lists {a,b}, ranges {3..5}, {08..10}, {a..e..2},
// nested. Text that is no list or range stays as it is, braces included; a backslash makes the next character
// plain text. Throws Error(invalid_argument) for more words than kMostShards.
std::vector<std::string> expand_braces(std::string_view text);

inline constexpr size_t kMostShards = size_t{1} << 24;

// Expands each entry, in order. Throws Error(invalid_argument) for no shards, for an empty name, and for URLs
// and commands, which are no local files.
std::vector<std::string> expand_shards(const std::vector<std::string>& shards);

}  // namespace millrace::api
