// ChunkCache: decoded chunks of several arrays, up to a number of bytes; the chunk that was used longest ago
// goes first.
//
// Rows of one chunk are often read in different calls: without a cache each of them decodes the whole chunk.
// Invariant, under `mutex_`: `bytes_` is the sum of the entries' sizes, never above `most_bytes_`, and
// `places_` has each entry of `entries_` once. A chunk that somebody holds stays alive after it has left the
// cache. Two threads that miss the same chunk both decode it; the second to come back finds it there and adds
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace millrace::arrays {

struct DecodedChunk {
  explicit DecodedChunk(size_t count) : bytes(new uint8_t[count]), size(count) {}  // not zeroed
  std::unique_ptr<uint8_t[]> bytes;
  size_t size;
};

class ChunkCache {
 public:
  explicit ChunkCache(size_t most_bytes) : most_bytes_(most_bytes) {}

  // Whether a chunk of `size` bytes may be added: four of them have to fit.
  bool takes(size_t size) const { return size <= most_bytes_ / 4; }

  // A number by which an array's chunks are told from those of others.
  uint64_t new_array();

  // The chunk in `cell` of `array`, or null.
  std::shared_ptr<const DecodedChunk> find(uint64_t array, int64_t cell);
  void add(uint64_t array, int64_t cell, std::shared_ptr<const DecodedChunk> chunk);

  // Drops the chunks of `array`, as its owner ends.
  void forget(uint64_t array);

  size_t bytes() const;

 private:
  struct Key {
    uint64_t array;
    int64_t cell;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return static_cast<size_t>((key.array * 0x9E3779B97F4A7C15u) ^ static_cast<uint64_t>(key.cell));
    }
  };
  struct Entry {
    Key key;
    std::shared_ptr<const DecodedChunk> chunk;
  };
  using Entries = std::list<Entry>;

  void drop(Entries::iterator entry);

  const size_t most_bytes_;
  mutable std::mutex mutex_;
  Entries entries_;  // the one used last comes first
  std::unordered_map<Key, Entries::iterator, KeyHash> places_;
  size_t bytes_ = 0;
  uint64_t arrays_ = 0;
};

}  // namespace millrace::arrays
