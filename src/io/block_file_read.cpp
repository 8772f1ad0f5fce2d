// The reader's side of BlockFile: waiting, asking, verifying, and releasing blocks.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "core/fork_guard.h"
#include "io/block_file_pin.h"
#include "trace/stage_clock.h"

namespace millrace::io {
namespace {

constexpr auto kSlice = std::chrono::milliseconds(50);  // how long an interruption may go unseen
constexpr int64_t kNearBytes = 1 << 20;  // a read that begins this close past the last one's end continues it
constexpr int64_t kMaxAhead = 16 << 20;  // how far reads in a row ask ahead at most
constexpr int64_t kKeptBlocks = 2;       // kept before a sequential reader's place: headers are read twice
constexpr int64_t kWakeBytes = 4 << 20;  // a sequential reader wakes the fetcher when it has passed this much

}  // namespace

class BlockFile::Reader final : public ByteSource {
 public:
  explicit Reader(std::shared_ptr<BlockFile> file) : file_(std::move(file)) {}
  ~Reader() override {
    if (core::fork_generation() != file_->generation_) return;  // the parent's readers are none of ours
    {
      const std::lock_guard lock(file_->mutex_);
      --file_->stats_.readers;
    }
    file_->wake();
  }
  const std::string& name() const override { return file_->name(); }
  int64_t size() const override { return file_->size(); }
  void read_at(int64_t offset, std::span<uint8_t> into) const override { file_->read(offset, into); }
  void will_read(int64_t offset, int64_t bytes) const override { file_->hint(offset, bytes); }
  bool is_here() const override { return file_->is_on_disk(); }

 private:
  const std::shared_ptr<BlockFile> file_;
};

std::shared_ptr<const ByteSource> BlockFile::reader() {
  {
    const std::lock_guard lock(mutex_);
    ++stats_.readers;
  }
  return std::make_shared<Reader>(shared_from_this());
}

bool BlockFile::is_on_disk() const {
  if (core::fork_generation() != generation_) return false;
  const std::lock_guard lock(mutex_);
  return stats_.complete && !memory_;
}

void BlockFile::read(int64_t offset, std::span<uint8_t> into) {
  if (core::fork_generation() != generation_)
    throw Error(ErrorKind::unavailable,
                name() +
                    " was opened before this process was forked, and nobody fetches it here; open it in the "
                    "process that reads it",
                name());
  if (offset < 0 || offset > size() || static_cast<int64_t>(into.size()) > size() - offset)
    throw Error(ErrorKind::corrupt_data,
                name() + " has " + std::to_string(size()) + " bytes, " + std::to_string(into.size()) +
                    " at byte " + std::to_string(offset) + " were asked for; it was cut short, copy it again",
                name(), offset);
  std::unique_lock lock(mutex_);
  while (!into.empty()) {
    move_to(offset);
    const Piece piece = wait_for_piece(lock, offset, into.size());
    bool good;
    {
      const Pin pin(*this, piece.first, piece.last, lock);  // unlocks
      good = piece.verified
                 ? read_all(piece.on_disk ? cache_.get() : memory_->get(), into.first(piece.bytes), offset)
                 : verify(piece, offset, into.first(piece.bytes));
    }
    for (int64_t block = piece.first; block <= piece.last; ++block) {
      Block& b = blocks_[static_cast<size_t>(block)];
      stats_.verified_blocks += !piece.verified;
      if (good) {
        if (!piece.verified && b.checksum == piece.checksum) b.verified = true;
        b.used = ++clock_;
        touch(b);
      } else if (b.filled == length_of(block) && b.on_disk && !b.verified && b.checksum == piece.checksum) {
        // The bytes on disk are not those that were written: the block becomes absent, for all processes, and
        // is asked for again. Other readers may be verifying it now. This one does not wait for them: if each
        // waited for the others, none would ever go on.
        constexpr uint64_t kAbsent = 0;
        [[maybe_unused]] const ssize_t put =
            ::pwrite(map_.get(), &kAbsent, sizeof kAbsent, options_.map_offset + block * 8);
        b.filled = 0;
        b.verified = false;
        --present_;
        stats_.complete = false;
        ++stats_.repaired_blocks;
      }
    }
    if (!good) continue;
    stats_.read_bytes += static_cast<int64_t>(piece.bytes);
    offset += static_cast<int64_t>(piece.bytes);
    into = into.subspan(piece.bytes);
  }
  last_end_ = offset;
}

// The bytes from `offset` on that can be read in one go: of verified blocks in one place, or of one block
// that is to be verified.
BlockFile::Piece BlockFile::wait_for_piece(std::unique_lock<std::mutex>& lock, int64_t offset, size_t bytes) {
  const int64_t first = offset / options_.block_bytes;
  const int64_t end = offset + static_cast<int64_t>(bytes);
  const auto have = [&](int64_t block) {
    return begin_of(block) + blocks_[static_cast<size_t>(block)].filled >=
           std::min(end, begin_of(block) + length_of(block));
  };
  recall(lock);
  const int64_t start = base::now_ns();
  bool waited = false;
  const trace::StageScope scope(trace::Stage::read);
  while (!have(first)) {
    if (failure_) throw *failure_;
    // Asks for all that this read needs at once, except for a sequential reader: it gets later blocks ahead
    // of its reads anyway.
    const int64_t last = options_.sequential ? first : (end - 1) / options_.block_bytes;
    for (int64_t block = first; block <= last; ++block)
      if (!have(block)) want(block);
    waited = true;
    ++blocks_[static_cast<size_t>(first)].waiting;
    arrived_.wait_for(lock, kSlice);
    --blocks_[static_cast<size_t>(first)].waiting;
    if (options_.while_waiting && !have(first)) {
      lock.unlock();
      options_.while_waiting();
      lock.lock();
    }
  }
  if (waited) stats_.waited_ns += base::now_ns() - start;
  const Block& b = blocks_[static_cast<size_t>(first)];
  Piece piece{first, first, 0, b.on_disk, b.verified, b.checksum};
  while (piece.verified && begin_of(piece.last + 1) < end && have(piece.last + 1)) {
    const Block& next = blocks_[static_cast<size_t>(piece.last + 1)];
    if (next.on_disk != piece.on_disk || !next.verified) break;
    ++piece.last;
  }
  piece.bytes = static_cast<size_t>(std::min(end, begin_of(piece.last) + length_of(piece.last)) - offset);
  return piece;
}

// Reads part of one whole cached block and compares all of it with its record.
bool BlockFile::verify(const Piece& piece, int64_t offset, std::span<uint8_t> into) const {
  return read_checked(cache_.get(), begin_of(piece.first), length_of(piece.first), piece.checksum, offset,
                      into);
}

// Notes the reader's place: drops the blocks that a sequential reader has passed; asks for the blocks that
// reads in a row need next. Needs mutex_.
void BlockFile::move_to(int64_t offset) {
  const bool goes_on = last_end_ >= 0 && offset >= last_end_ && offset - last_end_ <= kNearBytes;
  stats_.position = offset;
  if (!options_.sequential) {
    ahead_ = goes_on ? std::min(kMaxAhead, std::max(options_.block_bytes, ahead_ * 2)) : 0;
    const int64_t last = std::min(offset + ahead_, size() - 1) / options_.block_bytes;
    for (int64_t block = offset / options_.block_bytes + 1; ahead_ > 0 && block <= last; ++block)
      if (blocks_[static_cast<size_t>(block)].filled == 0) want(block);
    return;
  }
  const int64_t passed = std::max<int64_t>(0, offset / options_.block_bytes - kKeptBlocks);
  stats_.passed_block = passed;
  if (released_ < passed) {
    drop(released_, passed - 1);
    released_ = passed;
    for (const auto& [first, last] : pins_)
      released_ = std::min(released_, first);  // dropped when the pin is gone
  }
  if ((passed - woken_at_) * options_.block_bytes >= kWakeBytes || passed < woken_at_) {
    woken_at_ = passed;
    if (!stats_.complete) wake();
  }
}

void BlockFile::hint(int64_t offset, int64_t bytes) {
  if (offset < 0 || offset >= size() || bytes <= 0 || core::fork_generation() != generation_) return;
  const std::lock_guard lock(mutex_);
  const int64_t last =
      (offset + std::min(bytes, std::min(size() - offset, kMaxAhead)) - 1) / options_.block_bytes;
  for (int64_t block = offset / options_.block_bytes; block <= last; ++block)
    if (blocks_[static_cast<size_t>(block)].filled == 0) want(block);
}

void BlockFile::want(int64_t block) {
  Block& b = blocks_[static_cast<size_t>(block)];
  b.used_up = false;
  if (b.wanted || failure_) return;
  b.wanted = true;
  wanted_.push_back(block);
  wake();
}

// Counts the first read of a block as a hit or a miss of the cache.
void BlockFile::touch(Block& block) {
  if (block.touched) return;
  block.touched = true;
  ++(block.fetched ? stats_.miss_blocks : stats_.hit_blocks);
}

}  // namespace millrace::io
