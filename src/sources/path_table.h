// PathTable: many strings in one block. Immutable after building; any thread may read.
//
// Memory: the characters after a common prefix, plus 8 bytes a path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::sources {

class PathTable {
 public:
  void append(std::string_view path);
  void append(const PathTable& other);  // the tails of `other`, without its prefix
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }  // put in front of every path
  void reserve(size_t paths, size_t characters);

  size_t size() const { return ends_.size(); }
  size_t characters() const { return characters_.size(); }  // of all tails
  std::string path(size_t i) const;                         // whole path; throws Error(out_of_range)
  std::string_view tail(size_t i) const;                    // without the prefix; throws Error(out_of_range)
  const std::string& prefix() const { return prefix_; }
  size_t memory_bytes() const;

 private:
  std::string prefix_;
  std::vector<char> characters_;
  std::vector<uint64_t> ends_;
};

}  // namespace millrace::sources
