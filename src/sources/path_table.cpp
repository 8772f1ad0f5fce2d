// PathTable's members: tails back to back, one end offset each.
#include "sources/path_table.h"

#include "millrace/error.h"

namespace millrace::sources {

void PathTable::append(std::string_view path) {
  characters_.insert(characters_.end(), path.begin(), path.end());
  ends_.push_back(characters_.size());
}

void PathTable::append(const PathTable& other) {
  const uint64_t base = characters_.size();
  characters_.insert(characters_.end(), other.characters_.begin(), other.characters_.end());
  for (const uint64_t end : other.ends_) ends_.push_back(base + end);
}

void PathTable::reserve(size_t paths, size_t characters) {
  ends_.reserve(paths);
  characters_.reserve(characters);
}

std::string_view PathTable::tail(size_t i) const {
  if (i >= size())
    throw Error(ErrorKind::out_of_range,
                "path " + std::to_string(i) + " is not one of the table's " + std::to_string(size()));
  const uint64_t begin = i == 0 ? 0 : ends_[i - 1];
  return {characters_.data() + begin, ends_[i] - begin};
}

std::string PathTable::path(size_t i) const {
  const std::string_view end = tail(i);
  std::string whole;
  whole.reserve(prefix_.size() + end.size());
  return whole.append(prefix_).append(end);
}

size_t PathTable::memory_bytes() const {
  return prefix_.capacity() + characters_.capacity() + ends_.capacity() * sizeof(uint64_t);
}

}  // namespace millrace::sources
