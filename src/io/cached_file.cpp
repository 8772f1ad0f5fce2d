#include "io/cached_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "io/block_records.h"
#include "millrace/error.h"
#include "trace/stage_clock.h"

namespace millrace::io {
namespace {

constexpr uint8_t kVerified = 1, kTouched = 2;

}  // namespace

std::shared_ptr<const ByteSource> CachedFile::open(CachedFileOptions options) {
  if (options.size < 1 || options.block_bytes < 1 || options.block_bytes > (1 << 30) ||
      options.map_offset < static_cast<int64_t>(options.header.size()))
    throw Error(ErrorKind::invalid_argument,
                "an entry of the disk cache has 1 byte or more, blocks of 1 byte to 1 GiB, and a header "
                "before its records");
  auto map = std::make_unique<EntryLock>(options.map_path);
  if (!map->is_held()) return nullptr;
  Descriptor data(
      ::open(options.data_path.c_str(), O_RDWR | O_CLOEXEC));  // to write times: verified_blocks.h
  struct stat of_map, of_data;
  if (data.get() < 0 || ::fstat(map->fd(), &of_map) != 0 || of_map.st_nlink == 0) return nullptr;
  if (::fstat(data.get(), &of_data) != 0 || of_data.st_size != options.size) return nullptr;
  const int64_t blocks = (options.size + options.block_bytes - 1) / options.block_bytes;
  std::vector<uint8_t> begin(static_cast<size_t>(options.map_offset + blocks * 8));
  if (!read_all(map->fd(), begin, 0) ||
      !std::equal(options.header.begin(), options.header.end(), begin.begin(),
                  [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; }))
    return nullptr;
  std::vector<uint8_t> records(begin.begin() + options.map_offset, begin.end());
  for (int64_t block = 0; block < blocks; ++block)
    if (!is_present(record_at(records, block))) return nullptr;
  return std::make_shared<CachedFile>(std::move(options), std::move(map), std::move(data),
                                      std::move(records));
}

CachedFile::CachedFile(CachedFileOptions options, std::unique_ptr<EntryLock> map, Descriptor data,
                       std::vector<uint8_t> records)
    : options_(std::move(options)), map_(std::move(map)), data_(std::move(data)),
      records_(std::move(records)), state_(state_of(data_.get())), flags_(records_.size() / 8) {
  const auto known = recall_verified(map_->fd(), options_.map_offset + blocks() * 8, data_.get(),
                                     flags_.size(), options_.block_bytes);
  for (size_t i = 0; i < known.size(); ++i)
    flags_[i].store(known[i] ? kVerified : 0, std::memory_order_relaxed);
}

CachedFile::~CachedFile() {
  if (!map_->in_child()) note();
}

// Tells the others of the node what was verified here.
void CachedFile::note() const {
  if (!found_new_.exchange(false)) return;
  std::vector<bool> known(flags_.size());
  for (size_t i = 0; i < known.size(); ++i) known[i] = flags_[i].load(std::memory_order_relaxed) & kVerified;
  note_verified(map_->fd(), options_.map_offset + blocks() * 8, data_.get(), state_, known);
}

uint32_t CachedFile::length_of(int64_t block) const {
  return static_cast<uint32_t>(std::min(options_.block_bytes, size() - block * options_.block_bytes));
}

void CachedFile::read_at(int64_t offset, std::span<uint8_t> into) const {
  const trace::StageScope scope(trace::Stage::read);
  if (offset < 0 || offset > size() || static_cast<int64_t>(into.size()) > size() - offset)
    throw Error(ErrorKind::corrupt_data,
                name() + " has " + std::to_string(size()) + " bytes, " + std::to_string(into.size()) +
                    " at byte " + std::to_string(offset) + " were asked for; it was cut short, copy it again",
                name(), offset);
  while (!into.empty()) {
    const size_t got = gave_way_.load(std::memory_order_acquire) ? 0 : read_some(offset, into);
    if (got == 0) return instead().read_at(offset, into);
    offset += static_cast<int64_t>(got);
    into = into.subspan(got);
  }
}

void CachedFile::will_read(int64_t offset, int64_t bytes) const {
  ::posix_fadvise(data_.get(), offset, bytes, POSIX_FADV_WILLNEED);
}

// The bytes from `offset` on that can be read in one go: of verified blocks, or of one that is verified now.
// 0: it has to be fetched again.
size_t CachedFile::read_some(int64_t offset, std::span<uint8_t> into) const {
  const auto verified = [&](int64_t block) {
    return (flags_[static_cast<size_t>(block)].load(std::memory_order_relaxed) & kVerified) != 0;
  };
  const int64_t end = offset + static_cast<int64_t>(into.size()), first = offset / options_.block_bytes;
  int64_t last = first;
  const bool known = verified(first);
  while (known && (last + 1) * options_.block_bytes < end && verified(last + 1)) ++last;
  const int64_t begin = first * options_.block_bytes, until = last * options_.block_bytes + length_of(last);
  const auto part = into.first(static_cast<size_t>(std::min(end, until) - offset));
  if (known) {
    if (!read_all(data_.get(), part, offset)) return 0;
  } else {
    const auto checksum = static_cast<uint32_t>(record_at(records_, first));
    if (!read_checked(data_.get(), begin, length_of(first), checksum, offset, part)) return 0;
    if (options_.counts) options_.counts->verified_blocks.fetch_add(1, std::memory_order_relaxed);
    flags_[static_cast<size_t>(first)].fetch_or(kVerified, std::memory_order_relaxed);
    found_new_.store(true, std::memory_order_relaxed);
  }
  touch(first, last);
  return part.size();
}

void CachedFile::touch(int64_t first, int64_t last) const {
  int64_t hits = 0;
  for (int64_t block = first; block <= last; ++block) {
    auto& flags = flags_[static_cast<size_t>(block)];
    if ((flags.load(std::memory_order_relaxed) & kTouched) == 0)
      hits += (flags.fetch_or(kTouched, std::memory_order_relaxed) & kTouched) == 0;
  }
  if (hits > 0 && options_.counts) options_.counts->hit_blocks.fetch_add(hits, std::memory_order_relaxed);
}

const ByteSource& CachedFile::instead() const {
  if (map_->in_child())
    throw Error(ErrorKind::unavailable,
                name() +
                    " was opened before this process was forked, and a block of it in the disk cache is "
                    "damaged, which nobody fetches "
                    "here; open it in the process that reads it",
                name());
  if (!gave_way_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(giving_way_);
    if (!other_) {
      note();  // so that it is not verified again
      other_ = options_.otherwise();
      gave_way_.store(true, std::memory_order_release);
    }
  }
  return *other_;
}

}  // namespace millrace::io
