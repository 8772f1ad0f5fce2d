// Lists of shards, written short, as millrace.datasets.WebDataset reads them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace::api {

// The words that `text` expands to, in a shell's order: lists {a,b}, ranges {3..5}, {08..10}, {a..e..2},
// nested. What is no list or range stays as it is, braces included; a backslash before a character takes its
// meaning away. Throws Error(invalid_argument) for more words than kMostShards.
std::vector<std::string> expand_braces(std::string_view text);

inline constexpr size_t kMostShards = size_t{1} << 24;

// Of each entry, one behind the other. Throws Error(invalid_argument) for no shards, an empty name, and what
// is no local file: URLs and commands.
std::vector<std::string> expand_shards(const std::vector<std::string>& shards);

}  // namespace millrace::api
