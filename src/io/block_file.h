// BlockFile: an object of a store, here in blocks that arrive in any order while others read.
//
// Two sides. The fetcher's (Python's threads): take_wanted() says which blocks readers wait for, write()
// brings bytes, fail() and close() end the waiting. The reader's: reader() gives a ByteSource; its read_at()
// sleeps until the bytes are here.
//
// Blocks lie in memory (a memfd, with holes where nothing is held) or in a file of the disk cache, which
// stays; a block goes to memory if the cache's disk has no room for it. All processes of the node share the
// cache's map file. A block is in the cache once the map has its record (checksum), so a block is either
// whole or absent, even after a process was killed while it wrote. A block that was in the cache before is
// verified before this object first reads it, unless it is known to be right (verified_blocks.h); one that
// does not match its record is fetched again.
//
// Invariant: the first `filled` bytes of a block are final and readable. `filled` grows by write() and falls
// to 0 only when no read and no write has the block pinned: after a sequential reader has passed it, or when
// more than `max_held_bytes` are held. A block that fails its verification is dropped at once: another reader
// of it verifies it, too, and finds the same. write() takes only bytes that continue a block, so two
// transfers of the same bytes may race: each byte is stored once.
//
// Locks: `writing_` (one write() at a time), then `mutex_` (everything else); under `mutex_` no file is read
// or written, except 8-byte records. read_at() wakes at least every 50 ms to call `while_waiting`, which may
// throw. Readers keep the file alive; a forked child must not wait (Error(unavailable)): no thread fetches
// there.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/byte_source.h"
#include "io/file_errors.h"
#include "io/verified_blocks.h"
#include "millrace/error.h"

namespace millrace::io {

struct BlockFileOptions {
  std::string name;                // path or URL, for messages
  int64_t size = 0;                // bytes
  int64_t block_bytes = 1 << 20;   // at most 1 GiB
  int cache_fd = -1, map_fd = -1;  // the disk cache's data file and map, both or none; duplicated
  int64_t map_offset =
      0;  // where the map's records begin, 8 bytes per block; the note of verified_blocks.h follows them
  int wake_fd = -1;         // an eventfd that is written to when the fetcher should look here; duplicated
  bool sequential = false;  // release the blocks that the reader has passed
  int64_t max_held_bytes =
      0;  // 0: no bound; else the least recently used blocks in memory go, except those readers wait for
  std::function<void()> while_waiting;
};

struct BlockFileStats {
  int64_t held_bytes = 0;       // now in memory
  int64_t fetched_bytes = 0;    // taken by write()
  int64_t read_bytes = 0;       // given to readers
  int64_t hit_blocks = 0;       // blocks that were in the cache when a reader first came to them
  int64_t miss_blocks = 0;      // blocks that were fetched here
  int64_t verified_blocks = 0;  // cached blocks that were compared with their record
  int64_t repaired_blocks = 0;  // cached blocks that did not match their record
  int64_t waited_ns = 0;        // readers' time in waits
  int64_t position = 0;         // where the last read began
  int64_t passed_block = 0;     // a sequential reader is done with all before it
  int readers = 0;              // sources alive; 0: nobody can read any more
  int cache_errno = 0;          // why the cache's disk took no more, 0: it does
  bool complete = false;
};

class BlockFile : public std::enable_shared_from_this<BlockFile> {
 public:
  explicit BlockFile(BlockFileOptions options);
  ~BlockFile();

  const std::string& name() const { return options_.name; }
  int64_t size() const { return options_.size; }
  int64_t blocks() const { return static_cast<int64_t>(blocks_.size()); }

  // The fetcher's side.
  int64_t write(int64_t offset, std::span<const uint8_t> bytes);  // how many of them were new
  std::vector<int64_t> take_wanted();   // blocks readers asked for since the last call, in that order
  int64_t filled(int64_t block) const;  // bytes of it that are here
  int64_t next_missing(
      int64_t block) const;       // the first from `block` on neither whole nor used up; blocks() if none
  void refresh();                 // finds the blocks that other processes brought
  void fail(const Error& error);  // waiting reads, and later reads of absent bytes, throw it
  void close();                   // the same with Error(unavailable)
  BlockFileStats stats() const;

  std::shared_ptr<const ByteSource> reader();

 private:
  class Reader;
  class Pin;
  struct Block {
    uint32_t filled = 0, checksum = 0;
    uint64_t used = 0;      // clock of the last read, for max_held_bytes
    bool on_disk = false;   // else in memory
    bool verified = false;  // written here, or compared with its record
    bool used_up = false;   // released: write() leaves it alone until it is wanted again
    bool wanted = false;    // in wanted_
    uint16_t waiting = 0;   // readers that wait for it
    bool fetched = false, touched = false;
  };
  struct Piece {
    int64_t first, last;  // blocks, inclusive
    size_t bytes;
    bool on_disk, verified;
    uint32_t checksum;  // of the only block, when it is to be verified
  };

  bool is_on_disk() const;  // the whole of it, in the cache
  int64_t begin_of(int64_t block) const { return block * options_.block_bytes; }
  uint32_t length_of(int64_t block) const;
  void read(int64_t offset, std::span<uint8_t> into);
  Piece wait_for_piece(std::unique_lock<std::mutex>& lock, int64_t offset, size_t bytes);
  bool verify(const Piece& piece, int64_t offset, std::span<uint8_t> into) const;
  void move_to(int64_t offset);
  void hint(int64_t offset, int64_t bytes);
  void want(int64_t block);
  void touch(Block& block);
  void drop(int64_t first, int64_t last);
  void trim();
  bool pinned(int64_t block) const;
  uint32_t write_part(int64_t block, uint32_t within, std::span<const uint8_t> bytes);
  bool store(bool on_disk, int64_t offset, std::span<const uint8_t> bytes);
  void spill(int64_t block, uint32_t filled);
  int memory_fd();
  int64_t note_offset() const { return options_.map_offset + blocks() * 8; }
  void recall(std::unique_lock<std::mutex>& lock);
  void remember();
  void wake() const;

  const BlockFileOptions options_;
  const uint64_t generation_;  // of fork(): readers of a forked child must not wait
  const Descriptor cache_, map_, wake_;
  std::mutex writing_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  // All below: mutex_.
  std::optional<Descriptor> memory_;  // made when the first block needs it
  std::vector<Block> blocks_;
  bool recalled_ = false;  // recall() has run
  std::vector<int64_t> wanted_;
  std::vector<std::pair<int64_t, int64_t>> pins_;  // ranges of blocks that are being read or written
  std::optional<Error> failure_;
  BlockFileStats stats_;
  uint64_t clock_ = 0;
  int64_t last_end_ = -1, ahead_ = 0;  // of reads in a row: where the last one ended, how far to ask ahead
  FileState cache_state_;              // when this object was made or last wrote to the cache's file
  bool wrote_alone_ = true;            // nobody else wrote between these writes
  int64_t released_ = 0;               // all blocks before are used up or were never here
  int64_t present_ = 0;                // blocks that are whole
  int64_t woken_at_ = 0;               // passed_block of the last wake
};

}  // namespace millrace::io
