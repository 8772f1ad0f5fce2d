#include "sources/shard_reader.h"

#include <algorithm>
#include <utility>

namespace millrace::sources {
namespace {

bool is_meta(std::string_view name) {
  const std::string_view first = name.substr(0, name.find('/'));
  return first.size() >= 4 && first.starts_with("__") && first.ends_with("__");
}

char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

bool split_sample_name(std::string_view name, std::string& key, std::string& suffix) {
  const size_t slash = name.rfind('/');
  const size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const size_t dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == 0) return false;
  if (dot == base) {
    // A hidden file: its folder is the key, unless that has a dot itself.
    const size_t before = slash == 0 ? std::string_view::npos : name.rfind('/', slash - 1);
    const size_t parent = before == std::string_view::npos ? 0 : before + 1;
    if (name.substr(parent, dot - parent).find('.') != std::string_view::npos) return false;
  }
  key.assign(name.substr(0, dot));
  suffix.assign(name.substr(dot + 1));
  std::transform(suffix.begin(), suffix.end(), suffix.begin(), to_lower);
  return true;
}

ShardReader::ShardReader(const std::shared_ptr<const io::ByteSource>& source, NameFilter filter)
    : tar_(io::open_stream(source), source->name()), filter_(std::move(filter)) {}

bool ShardReader::next(ShardFile& file) {
  while (tar_.next(file.entry)) {
    if (is_meta(file.entry.name)) continue;
    if (filter_ && !filter_(file.entry.name)) continue;
    if (split_sample_name(file.entry.name, file.key, file.suffix)) return true;
  }
  return false;
}

}  // namespace millrace::sources
