// MemoryBlock: a range of pages straight from the system; and the cache that keeps blocks warm between rings.
//
// A page's first touch costs 1 to 3 us, a warm page nothing, so blocks are kept and used again. Blocks of
// kHugeFrom bytes and more ask for huge pages: the first touch of 77 MB took 44 ms without and 18 ms with
// them, of which 11 are the writing. Blocks are private memory: a forked child keeps seeing what was there
// when it was forked. They are left out of core dumps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace millrace::core {

class MemoryBlock {
 public:
  MemoryBlock() = default;
  explicit MemoryBlock(size_t bytes);  // zero-filled, page-aligned; throws Error(system)
  // Memory that `owner` keeps. It is never cached: only its maker knows when it can be used again.
  MemoryBlock(uint8_t* data, size_t bytes, std::shared_ptr<void> owner) noexcept
      : data_(data), size_bytes_(bytes), owner_(std::move(owner)) {}
  MemoryBlock(MemoryBlock&& other) noexcept;
  MemoryBlock& operator=(MemoryBlock&& other) noexcept;
  ~MemoryBlock();

  uint8_t* data() const { return data_; }
  const std::shared_ptr<void>& owner() const { return owner_; }
  size_t size_bytes() const { return size_bytes_; }  // the bytes asked for, rounded up to whole pages

 private:
  uint8_t* data_ = nullptr;
  size_t size_bytes_ = 0;
  std::shared_ptr<void> owner_;
};

// Makes blocks of at least so many bytes, 64-byte aligned, on any thread; throws Error(system).
using BlockSource = std::function<MemoryBlock(size_t bytes)>;

inline constexpr size_t kHugeFrom = size_t{4} << 20;

// The process-wide cache: at most kSlotCacheBytes (the blocks put in longest ago go first). Any thread; safe
// across fork().
inline constexpr size_t kSlotCacheBytes = size_t{256} << 20;

// A block of at least `bytes`, its contents undefined: the cached one put in last that is at most twice as
// large, else a new one.
MemoryBlock take_block(size_t bytes);
void cache_block(MemoryBlock block);

}  // namespace millrace::core
