#include "arrays/chunk_cache.h"

#include <iterator>
#include <utility>

namespace millrace::arrays {

uint64_t ChunkCache::new_array() {
  const std::lock_guard lock(mutex_);
  return ++arrays_;
}

std::shared_ptr<const DecodedChunk> ChunkCache::find(uint64_t array, int64_t cell) {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find({array, cell});
  if (found == places_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->chunk;
}

void ChunkCache::add(uint64_t array, int64_t cell, std::shared_ptr<const DecodedChunk> chunk) {
  if (!takes(chunk->size)) return;
  const std::lock_guard lock(mutex_);
  const Key key{array, cell};
  if (places_.contains(key)) return;
  while (bytes_ + chunk->size > most_bytes_) drop(std::prev(entries_.end()));
  bytes_ += chunk->size;
  entries_.push_front({key, std::move(chunk)});
  places_.emplace(key, entries_.begin());
}

void ChunkCache::forget(uint64_t array) {
  const std::lock_guard lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto here = entry++;
    if (here->key.array == array) drop(here);
  }
}

size_t ChunkCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void ChunkCache::drop(Entries::iterator entry) {
  bytes_ -= entry->chunk->size;
  places_.erase(entry->key);
  entries_.erase(entry);
}

}  // namespace millrace::arrays
