#include "core/slot_memory.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/batch_ring.h"
#include "millrace/error.h"

namespace millrace::core {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSmallBytes = size_t{64}
                               << 10;  // below it, what a too large block wastes is not worth a new one

[[noreturn]] void throw_no_memory(size_t bytes) {
  const int code = errno;
  throw Error(ErrorKind::system,
              "no memory for a batch of " + std::to_string(bytes) + " bytes (" + std::strerror(code) +
                  "); use a smaller batch size, fewer slots, or keep fewer batches alive",
              {}, -1, code);
}

uint8_t* map_pages(size_t bytes) {
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? nullptr : static_cast<uint8_t*>(pages);
}

// Kernels before 6.7 do not put large mappings on a huge page's boundary by themselves: map more and cut the
// edges off.
uint8_t* map_on_huge_boundary(size_t bytes) {
  uint8_t* raw = map_pages(bytes + kHugePage);
  if (raw == nullptr) return nullptr;
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(raw) % kHugePage) % kHugePage;
  if (before != 0) munmap(raw, before);
  munmap(raw + before + bytes, kHugePage - before);
  madvise(raw + before, bytes / kHugePage * kHugePage,
          MADV_HUGEPAGE);  // advice: refused on kernels without huge pages
  return raw + before;
}

class SlotCache {
 public:
  MemoryBlock take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    for (size_t i = blocks_.size(); i-- > 0;) {
      if (blocks_[i].size_bytes() < bytes || blocks_[i].size_bytes() / 2 > std::max(bytes, kSmallBytes))
        continue;
      MemoryBlock block = std::move(blocks_[i]);
      blocks_.erase(blocks_.begin() + static_cast<ptrdiff_t>(i));
      held_bytes_ -= block.size_bytes();
      return block;
    }
    return {};
  }

  void put(MemoryBlock block) {
    std::vector<MemoryBlock> evicted;  // unmapped after the lock is let go: that takes milliseconds
    const std::lock_guard lock(mutex_);
    if (block.size_bytes() > kSlotCacheBytes) return;
    held_bytes_ += block.size_bytes();
    blocks_.push_back(std::move(block));
    size_t gone = 0;
    for (; held_bytes_ > kSlotCacheBytes; ++gone) held_bytes_ -= blocks_[gone].size_bytes();
    const auto end = blocks_.begin() + static_cast<ptrdiff_t>(gone);
    evicted.assign(std::make_move_iterator(blocks_.begin()), std::make_move_iterator(end));
    blocks_.erase(blocks_.begin(), end);
  }

  size_t clear() {
    std::vector<MemoryBlock> gone;
    const std::lock_guard lock(mutex_);
    gone.swap(blocks_);
    return std::exchange(held_bytes_, 0);
  }

  std::mutex& mutex() { return mutex_; }

 private:
  std::mutex mutex_;                 // guards both members below
  std::vector<MemoryBlock> blocks_;  // the one put in last is at the end
  size_t held_bytes_ = 0;
};

// Never destroyed: leases may end after static destructors ran. Made when the library is loaded, not at first
// use: a child forked while a thread is at its first use would wait for that thread's initialisation for
// ever.
SlotCache& cache = *new SlotCache;

// The lock is held over fork(), so that the child does not inherit it locked by a thread that it does not
// have.
[[maybe_unused]] const int forks_counted = pthread_atfork(
    [] { cache.mutex().lock(); }, [] { cache.mutex().unlock(); }, [] { cache.mutex().unlock(); });

const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));

}  // namespace

MemoryBlock::MemoryBlock(size_t bytes) {
  if (bytes > SIZE_MAX - kHugePage - page_bytes) {
    errno = ENOMEM;
    throw_no_memory(bytes);
  }
  const size_t rounded = bytes == 0 ? page_bytes : (bytes + page_bytes - 1) / page_bytes * page_bytes;
  data_ = rounded >= kHugeFrom ? map_on_huge_boundary(rounded) : map_pages(rounded);
  if (data_ == nullptr) throw_no_memory(bytes);
  size_bytes_ = rounded;
  madvise(data_, size_bytes_, MADV_DONTDUMP);
}

MemoryBlock::MemoryBlock(MemoryBlock&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)),
      owner_(std::move(other.owner_)) {}

MemoryBlock& MemoryBlock::operator=(MemoryBlock&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(owner_, other.owner_);
  return *this;
}

MemoryBlock::~MemoryBlock() {
  if (data_ != nullptr && owner_ == nullptr) munmap(data_, size_bytes_);
}

MemoryBlock take_block(size_t bytes) {
  MemoryBlock block = cache.take(bytes);
  return block.data() != nullptr ? std::move(block) : MemoryBlock(bytes);
}

void cache_block(MemoryBlock block) {
  if (block.owner() == nullptr) cache.put(std::move(block));
}

size_t empty_slot_cache() { return cache.clear(); }

}  // namespace millrace::core
