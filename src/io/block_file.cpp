// The fetcher's side and the bookkeeping of blocks; block_file_read.cpp has the reader's.
#include "io/block_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/fork_guard.h"
#include "io/block_file_pin.h"
#include "io/crc32c.h"

namespace millrace::io {
namespace {

Descriptor duplicate(int fd, const std::string& name) {
  if (fd < 0) return Descriptor(-1);
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) fail_on_file("keep a descriptor of", name, errno);
  return Descriptor(copy);
}

// All bytes or an errno.
int write_all(int fd, std::span<const uint8_t> bytes, int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    if (put == 0) return ENOSPC;
    offset += put;
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
  return 0;
}

}  // namespace

BlockFile::BlockFile(BlockFileOptions options)
    : options_(std::move(options)), generation_(core::fork_generation()),
      cache_(duplicate(options_.cache_fd, options_.name)), map_(duplicate(options_.map_fd, options_.name)),
      wake_(duplicate(options_.wake_fd, options_.name)) {
  if (options_.size < 0 || options_.block_bytes < 1 || options_.block_bytes > (1 << 30))
    throw Error(ErrorKind::invalid_argument,
                "a BlockFile's size should be 0 or more and its blocks of 1 byte to 1 GiB");
  if ((cache_.get() < 0) != (map_.get() < 0))
    throw Error(ErrorKind::invalid_argument,
                "a file of the disk cache has a data file and a map; give both or none");
  blocks_.resize(static_cast<size_t>((options_.size + options_.block_bytes - 1) / options_.block_bytes));
  stats_.complete = blocks_.empty();
  if (cache_.get() >= 0) cache_state_ = state_of(cache_.get());
  refresh();
}

BlockFile::~BlockFile() {
  if (core::fork_generation() == generation_) remember();
}

// Marks the blocks that others verified since the machine started. Runs at the first read, not before: an
// earlier object of this process may be read until then, and notes its verified blocks when it ends. Unlocks
// meanwhile.
void BlockFile::recall(std::unique_lock<std::mutex>& lock) {
  if (std::exchange(recalled_, true) || cache_.get() < 0) return;
  lock.unlock();
  const auto known =
      recall_verified(map_.get(), note_offset(), cache_.get(), blocks_.size(), options_.block_bytes);
  lock.lock();
  for (size_t i = 0; i < blocks_.size(); ++i) {
    Block& b = blocks_[i];
    if (known[i] && b.on_disk && b.filled == length_of(static_cast<int64_t>(i))) b.verified = true;
  }
}

// Notes the verified blocks for the next object that opens the entry; notes nothing if another writer has
// changed the file meanwhile, so that it is verified anew.
void BlockFile::remember() {
  std::vector<bool> known(blocks_.size());
  FileState as_of;
  {
    const std::lock_guard lock(mutex_);
    if (cache_.get() < 0 || !wrote_alone_) return;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& b = blocks_[i];
      known[i] = b.on_disk && b.verified && b.filled == length_of(static_cast<int64_t>(i));
    }
    as_of = cache_state_;
  }
  if (std::find(known.begin(), known.end(), true) != known.end())
    note_verified(map_.get(), note_offset(), cache_.get(), as_of, known);
}

uint32_t BlockFile::length_of(int64_t block) const {
  return static_cast<uint32_t>(std::min(options_.block_bytes, options_.size - begin_of(block)));
}

int64_t BlockFile::write(int64_t offset, std::span<const uint8_t> bytes) {
  if (offset < 0 || offset > size() || static_cast<int64_t>(bytes.size()) > size() - offset)
    throw Error(ErrorKind::out_of_range, name() + " has " + std::to_string(size()) + " bytes; " +
                                             std::to_string(bytes.size()) + " at " + std::to_string(offset) +
                                             " do not belong to it");
  const std::lock_guard writing(writing_);
  int64_t taken = 0;
  while (!bytes.empty()) {
    const int64_t block = offset / options_.block_bytes;
    const auto within = static_cast<uint32_t>(offset - begin_of(block));
    const auto part = bytes.first(std::min<size_t>(bytes.size(), length_of(block) - within));
    taken += write_part(block, within, part);
    offset += static_cast<int64_t>(part.size());
    bytes = bytes.subspan(part.size());
  }
  return taken;
}

uint32_t BlockFile::write_part(int64_t block, uint32_t within, std::span<const uint8_t> bytes) {
  std::unique_lock lock(mutex_);
  Block& b = blocks_[static_cast<size_t>(block)];
  const auto end = static_cast<uint32_t>(within + bytes.size());
  if (b.used_up || within > b.filled || end <= b.filled || failure_) return 0;
  const auto fresh = bytes.subspan(b.filled - within);
  const uint32_t before = b.filled;
  bool on_disk = before > 0 ? b.on_disk : cache_.get() >= 0 && stats_.cache_errno == 0;
  if (!on_disk) memory_fd();
  {
    const Pin pin(*this, block, block, lock);  // unlocks
    if (!store(on_disk, begin_of(block) + before, fresh)) {
      spill(block, before);
      on_disk = false;
      store(on_disk, begin_of(block) + before, fresh);
    }
  }
  b.on_disk = on_disk;
  b.filled = end;
  b.verified = b.fetched = true;
  if (on_disk) b.checksum = crc32c(before > 0 ? b.checksum : 0, fresh);
  b.used = ++clock_;
  stats_.fetched_bytes += static_cast<int64_t>(fresh.size());
  if (!on_disk) stats_.held_bytes += static_cast<int64_t>(fresh.size());
  if (end == length_of(block)) {
    if (on_disk) {
      const uint64_t record = kPresent | b.checksum;
      uint8_t raw[8];
      std::memcpy(raw, &record, 8);
      if (const int code = write_all(map_.get(), raw, options_.map_offset + block * 8))
        stats_.cache_errno = code;
    }
    stats_.complete = ++present_ == blocks();
    if (!on_disk) released_ = std::min(released_, block);
    trim();
  }
  lock.unlock();
  arrived_.notify_all();
  return static_cast<uint32_t>(fresh.size());
}

// False: the cache's disk took them not, for the reason in cache_errno; the block has to go to memory. Throws
// when memory is refused.
bool BlockFile::store(bool on_disk, int64_t offset, std::span<const uint8_t> bytes) {
  if (!on_disk) {
    if (const int code = write_all(memory_->get(), bytes, offset))
      fail_on_file("hold in memory the bytes of", name(), code);
    return true;
  }
  const FileState before = state_of(cache_.get());
  const int code = write_all(cache_.get(), bytes, offset);
  const FileState after = state_of(cache_.get());
  const std::lock_guard lock(mutex_);
  wrote_alone_ = wrote_alone_ && before == cache_state_;
  cache_state_ = after;
  if (code != 0) stats_.cache_errno = code;
  return code == 0;
}

// Moves the first bytes of a block that has begun on disk to memory.
void BlockFile::spill(int64_t block, uint32_t filled) {
  int memory;
  {
    const std::lock_guard lock(mutex_);
    memory = memory_fd();
  }
  std::vector<uint8_t> bytes(filled);
  if (!read_all(cache_.get(), bytes, begin_of(block)))
    fail_on_file("read back from the disk cache", name(), EIO);
  if (const int code = write_all(memory, bytes, begin_of(block)))
    fail_on_file("hold in memory the bytes of", name(), code);
  const std::lock_guard lock(mutex_);
  stats_.held_bytes += filled;
}

int BlockFile::memory_fd() {
  if (!memory_) {
    const int fd = ::memfd_create("millrace-blocks", MFD_CLOEXEC);
    if (fd < 0 || ::ftruncate(fd, size()) != 0) {
      const int code = errno;
      if (fd >= 0) ::close(fd);
      fail_on_file("get memory for", name(), code);
    }
    memory_.emplace(fd);
  }
  return memory_->get();
}

std::vector<int64_t> BlockFile::take_wanted() {
  const std::lock_guard lock(mutex_);
  for (const int64_t block : wanted_) blocks_[static_cast<size_t>(block)].wanted = false;
  return std::exchange(wanted_, {});
}

int64_t BlockFile::filled(int64_t block) const {
  const std::lock_guard lock(mutex_);
  return block < 0 || block >= blocks() ? 0 : blocks_[static_cast<size_t>(block)].filled;
}

int64_t BlockFile::next_missing(int64_t block) const {
  const std::lock_guard lock(mutex_);
  for (block = std::max<int64_t>(block, 0); block < blocks(); ++block) {
    const Block& b = blocks_[static_cast<size_t>(block)];
    if (!b.used_up && b.filled < length_of(block)) break;
  }
  return block;
}

void BlockFile::refresh() {
  if (map_.get() < 0) return;
  const std::lock_guard writing(writing_);  // a block that write() has begun stays its own
  std::vector<uint8_t> raw(blocks_.size() * 8);
  if (!read_all(map_.get(), raw, options_.map_offset)) return;
  {
    const std::lock_guard lock(mutex_);
    for (int64_t block = 0; block < blocks(); ++block) {
      Block& b = blocks_[static_cast<size_t>(block)];
      const uint64_t record = record_at(raw, block);
      if (!is_present(record) || b.filled == length_of(block) || pinned(block)) continue;
      if (b.filled > 0 && !b.on_disk) continue;
      b.filled = length_of(block);
      b.checksum = static_cast<uint32_t>(record);
      b.on_disk = true;
      b.verified = b.used_up = b.fetched = false;
      stats_.complete = ++present_ == blocks();
    }
  }
  arrived_.notify_all();
}

void BlockFile::fail(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_.emplace(error);
  }
  arrived_.notify_all();
}

void BlockFile::close() {
  fail(Error(ErrorKind::unavailable,
             name() + " was closed while it was read; read before its stream is closed", name()));
  remember();
}

BlockFileStats BlockFile::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

bool BlockFile::pinned(int64_t block) const {
  return std::any_of(pins_.begin(), pins_.end(),
                     [&](const auto& pin) { return pin.first <= block && block <= pin.second; });
}

// Forgets blocks that lie in memory, but those that are read or written now. Needs mutex_.
void BlockFile::drop(int64_t first, int64_t last) {
  for (int64_t block = first; block <= last; ++block) {
    Block& b = blocks_[static_cast<size_t>(block)];
    if (b.on_disk || b.filled == 0 || pinned(block)) continue;
    ::fallocate(memory_->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin_of(block),
                length_of(block));
    stats_.held_bytes -= b.filled;
    if (b.filled == length_of(block)) {
      --present_;
      stats_.complete = false;
    }
    b.filled = 0;
    b.used_up = true;
  }
}

// Least recently used blocks go while more than max_held_bytes are in memory, but those that a reader is
// about to take. Needs mutex_.
void BlockFile::trim() {
  while (options_.max_held_bytes > 0 && stats_.held_bytes > options_.max_held_bytes) {
    int64_t oldest = -1;
    for (int64_t block = 0; block < blocks(); ++block) {
      const Block& b = blocks_[static_cast<size_t>(block)];
      if (b.on_disk || b.filled < length_of(block) || b.waiting > 0 || pinned(block)) continue;
      if (oldest < 0 || b.used < blocks_[static_cast<size_t>(oldest)].used) oldest = block;
    }
    if (oldest < 0) return;
    drop(oldest, oldest);
  }
}

void BlockFile::wake() const {
  if (wake_.get() < 0) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t put =
      ::write(wake_.get(), &one, sizeof one);  // full means that a wake is on its way already
}

}  // namespace millrace::io
