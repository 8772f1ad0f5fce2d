// TarIndex: which samples a plain tar shard has and where their files lie in it, so that any of them is one
// read away.
//
// Made by one walk over the headers (contents are passed over), or loaded from what save() wrote. Files that
// hold nothing but a whole number of at most kMostNumberBytes characters, labels most of all, are in the
// index with their value. Memory, and size on disk: the keys' characters, 16 bytes a sample, 32 a file.
// Immutable once made; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/byte_source.h"
#include "sources/path_table.h"

namespace millrace::sources {

class TarIndex {
 public:
  static constexpr int64_t kMostNumberBytes = 20;
  static constexpr int64_t kNoNumber = INT64_MIN;

  struct File {
    uint32_t suffix = 0;  // of suffixes()
    int64_t offset = 0, size = 0;
    int64_t number = kNoNumber;
  };

  // Throws what TarReader throws, Error(unavailable) for a packed archive, and Error(corrupt_data) for a
  // suffix that is twice in a sample.
  static TarIndex build(const std::shared_ptr<const io::ByteSource>& shard);

  // The file appears whole or not at all. load() throws Error(corrupt_data) for anything but an undamaged
  // index of this version, or of the one before, which had no marks. `mark`: content_mark() of the shard, for
  // an index that nothing but its name ties to it; 0: the one that build() took of a local shard.
  void save(const std::string& path, uint64_t mark = 0) const;
  static TarIndex load(const std::string& path);
  uint64_t mark() const { return mark_; }  // of what it was made of; 0: unknown

  int64_t size() const { return static_cast<int64_t>(keys_.size()); }  // samples
  std::string key(int64_t sample) const { return keys_.path(static_cast<size_t>(sample)); }
  const std::vector<std::string>& suffixes() const { return suffixes_; }  // in order of appearance
  std::span<const File> files(int64_t sample) const;
  int64_t shard_bytes() const {
    return shard_bytes_;
  }  // of the whole archive, to tell whether the index is still its

  // The sample's file with the first suffix of `wanted` that it has; null: it has none.
  const File* find(int64_t sample, std::span<const std::string> wanted) const;

 private:
  std::vector<uint8_t> encode(uint64_t mark) const;

  PathTable keys_;
  std::vector<std::string> suffixes_;
  std::vector<File> files_;
  std::vector<int64_t> ends_;  // of each sample's files
  int64_t shard_bytes_ = 0;
  uint64_t mark_ = 0;
};

}  // namespace millrace::sources
