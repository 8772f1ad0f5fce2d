// CachedFile: an object that the disk cache has whole, read as a local file is: in the reading thread,
// without fetcher, helper thread or lock.
//
// Verification: the first read of a block compares all of it with its record (CRC32C) before it gives out a
// byte. This object does not compare the block again, and not even once if it is known to be right
// (verified_blocks.h). When this object ends, it tells the other processes of the node which blocks it
// verified. After a block that does not match, or that the disk does not give, all reads go to the source
// from `otherwise()`, which fetches the block again and is the same version of the object.
//
// An entry is in use while this object lives. Opening one takes no lock of the folder: a process that evicts
// the entry holds the map's lock exclusively until both files are unlinked, and a process that makes the
// entry anew unlinks the data file first. So a map that is locked here, and still has a name once the data
// file is open, belongs to that data file.
//
// Flags are set and never cleared, each by the thread that did the work it names, so threads may race for
// them: a block is then verified twice. `otherwise` runs once, under a lock that only reads that need its
// result wait for. It may need the interpreter, so call read_at() without the interpreter's lock. A forked
// child can go on reading; a read that would have to fetch throws Error(unavailable).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "io/byte_source.h"
#include "io/entry_lock.h"
#include "io/file_errors.h"
#include "io/verified_blocks.h"

namespace millrace::io {

// Blocks that readers came to first, and those compared with their records, by all files of a DiskCache.
struct CacheCounts {
  std::atomic<int64_t> hit_blocks{0}, verified_blocks{0};
};

struct CachedFileOptions {
  std::string name;                 // URL, for messages
  std::string data_path, map_path;  // of the entry
  std::string header;               // what the map begins with, when it is of the right version
  int64_t map_offset = 0;           // where its records begin
  int64_t size = 0;                 // bytes
  int64_t block_bytes = 1 << 20;    // at most 1 GiB
  std::shared_ptr<CacheCounts> counts;
  std::function<std::shared_ptr<const ByteSource>()> otherwise;
};

class CachedFile final : public ByteSource {
 public:
  // nullptr: the entry is absent, not whole, of another version, or about to be evicted. Some ten system
  // calls.
  static std::shared_ptr<const ByteSource> open(CachedFileOptions options);
  CachedFile(CachedFileOptions options, std::unique_ptr<EntryLock> map, Descriptor data,
             std::vector<uint8_t> records);
  ~CachedFile() override;

  const std::string& name() const override { return options_.name; }
  int64_t size() const override { return options_.size; }
  void read_at(int64_t offset, std::span<uint8_t> into) const override;
  void will_read(int64_t offset, int64_t bytes) const override;
  bool is_here() const override { return true; }

 private:
  int64_t blocks() const { return static_cast<int64_t>(flags_.size()); }
  uint32_t length_of(int64_t block) const;
  size_t read_some(int64_t offset, std::span<uint8_t> into) const;
  void touch(int64_t first, int64_t last) const;
  void note() const;
  const ByteSource& instead() const;

  const CachedFileOptions options_;
  const std::unique_ptr<EntryLock> map_;
  const Descriptor data_;
  const std::vector<uint8_t> records_;
  const FileState state_;  // when it was opened
  mutable std::vector<std::atomic<uint8_t>> flags_;
  mutable std::atomic<bool> found_new_{false};  // something that others do not know yet
  mutable std::atomic<bool> gave_way_{false};   // other_ is there
  mutable std::mutex giving_way_;
  mutable std::shared_ptr<const ByteSource> other_;  // set once, before gave_way_
};

}  // namespace millrace::io
