#include "core/batch_ring.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "core/fork_guard.h"
#include "core/slot_memory.h"
#include "millrace/error.h"

namespace millrace::core {
namespace {

// Aligned by hand: glibc's aligned allocation cannot use the hole that the last copy of the same size left,
// because it looks for a larger one, so with something kept from every batch (a loop that collects labels)
// each copy took new memory for good.
constexpr size_t kAlignment = 64;

void check_slots(int slots) {
  if (slots < 1)
    throw Error(ErrorKind::invalid_argument, "a ring needs at least one slot, got " + std::to_string(slots));
}

}  // namespace

// Owned by its lease alone while leased: only the lease's holder touches it, so it needs no lock. The
// generation is compared before anything else: in a forked child `ring` must not be locked, not even counted
// down (its end could lock).
struct Lease::Slot {
  uint64_t generation = fork_generation();
  MemoryBlock pages;
  std::unique_ptr<uint8_t[]> copied;  // instead of pages: copy_of()
  uint8_t* copied_data = nullptr;     // in it
  size_t size_bytes = 0;
  bool overflow = false;
  std::shared_ptr<const BlockSource> source;  // null: the system
  std::shared_ptr<BatchRing::State> ring;     // null: overflow memory and copies end with their lease
};

struct BatchRing::State {
  State(int slot_count, std::function<void()> callback, BlockSource blocks)
      : on_release(std::move(callback)),
        source(blocks ? std::make_shared<const BlockSource>(std::move(blocks)) : nullptr), slots(slot_count) {
  }

  const uint64_t generation = fork_generation();
  const std::function<void()> on_release;
  const std::shared_ptr<const BlockSource> source;
  std::atomic<int64_t> overflow_count{0};

  std::mutex mutex;  // guards everything below
  bool closed = false;
  int slots;
  int leased = 0;
  std::vector<MemoryBlock> free;  // the one that came back last is at the end

  // Under the lock: the free block that suits best, or an empty one for the caller to fill.
  MemoryBlock take_free(size_t bytes) {
    if (free.empty()) return {};
    const auto fits = [bytes](const MemoryBlock& block) { return block.size_bytes() >= bytes; };
    auto best = std::find_if(free.rbegin(), free.rend(), fits);
    // None is large enough: while the ring may still grow, add one; else one of the small ones goes.
    if (best == free.rend() && leased + static_cast<int>(free.size()) < slots) return {};
    if (best == free.rend()) best = free.rbegin();
    MemoryBlock block = std::move(*best);
    free.erase(std::next(best).base());
    return block;
  }

  void give_back(MemoryBlock block) {
    {
      const std::lock_guard lock(mutex);
      --leased;
      if (!closed && block.owner() == nullptr && leased + static_cast<int>(free.size()) < slots)
        free.push_back(std::move(block));
    }
    if (block.data() != nullptr) cache_block(std::move(block));
    if (on_release) on_release();
  }
};

namespace {

// Before any lock: in a forked child it may have been copied while a thread of the parent held it.
template <class State>
State& of_this_process(State& state) {
  if (state.generation != fork_generation())
    throw Error(
        ErrorKind::unavailable,
        "this memory for batches was made before fork() and belongs to the parent; make it anew here");
  return state;
}

}  // namespace

Lease::Lease() noexcept = default;
Lease::Lease(std::unique_ptr<Slot> slot) noexcept : slot_(std::move(slot)) {}
Lease::Lease(Lease&& other) noexcept = default;

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    give_back();
    slot_ = std::move(other.slot_);
  }
  return *this;
}

Lease::~Lease() { give_back(); }

void Lease::give_back() noexcept {
  if (slot_ == nullptr) return;
  if (slot_->generation != fork_generation()) {
    static_cast<void>(slot_.release());
    return;
  }
  const std::unique_ptr<Slot> slot = std::move(slot_);
  if (const auto ring = std::move(slot->ring)) ring->give_back(std::move(slot->pages));
}

Lease Lease::copy_of(const uint8_t* bytes, size_t size_bytes) {
  auto slot = std::make_unique<Slot>();
  size_t room = size_bytes + kAlignment;
  slot->copied.reset(new uint8_t[room]);
  void* aligned = slot->copied.get();
  slot->copied_data = static_cast<uint8_t*>(std::align(kAlignment, size_bytes, aligned, room));
  std::memcpy(slot->copied_data, bytes, size_bytes);
  slot->size_bytes = size_bytes;
  return Lease(std::move(slot));
}

void Lease::resize(size_t size_bytes) {
  if (size_bytes > slot_->pages.size_bytes()) {
    MemoryBlock larger = slot_->source ? (*slot_->source)(size_bytes) : take_block(size_bytes);
    std::swap(slot_->pages, larger);
    if (larger.data() != nullptr) cache_block(std::move(larger));
  }
  slot_->size_bytes = size_bytes;
}

Lease Lease::beside(size_t size_bytes) const {
  auto slot = std::make_unique<Slot>();
  slot->source = slot_->source;
  Lease lease(std::move(slot));
  lease.resize(size_bytes);
  return lease;
}

uint8_t* Lease::data() const { return slot_->copied ? slot_->copied_data : slot_->pages.data(); }
size_t Lease::size_bytes() const { return slot_->size_bytes; }
std::shared_ptr<void> Lease::owner() const { return slot_->pages.owner(); }
bool Lease::overflow() const { return slot_->overflow; }

BatchRing::BatchRing(int slots, std::function<void()> on_release, BlockSource source) {
  check_slots(slots);
  state_ = std::make_shared<State>(slots, std::move(on_release), std::move(source));
}

BatchRing::~BatchRing() {
  if (state_->generation != fork_generation()) {
    new std::shared_ptr<State>(std::move(state_));  // leaked: its lock may never open in this process
    return;
  }
  std::vector<MemoryBlock> blocks;
  {
    const std::lock_guard lock(state_->mutex);
    state_->closed = true;
    blocks.swap(state_->free);
  }
  for (MemoryBlock& block : blocks) cache_block(std::move(block));
}

std::optional<Lease> BatchRing::try_acquire(size_t bytes) {
  of_this_process(*state_);
  auto slot = std::make_unique<Lease::Slot>();
  slot->source = state_->source;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->leased >= state_->slots) return std::nullopt;
    slot->pages = state_->take_free(bytes);
    ++state_->leased;
  }
  Lease lease(std::move(slot));
  try {
    lease.resize(bytes);
  } catch (...) {
    // Not through the lease: the caller may hold the lock that its release callback takes.
    const std::lock_guard lock(state_->mutex);
    --state_->leased;
    throw;
  }
  lease.slot_->ring = state_;
  return lease;
}

Lease BatchRing::acquire_overflow(size_t bytes) {
  auto slot = std::make_unique<Lease::Slot>();
  slot->overflow = true;
  slot->source = state_->source;
  Lease lease(std::move(slot));
  lease.resize(bytes);
  state_->overflow_count.fetch_add(1, std::memory_order_relaxed);
  return lease;
}

void BatchRing::set_slots(int slots) {
  check_slots(slots);
  of_this_process(*state_);
  std::vector<MemoryBlock> gone;
  {
    const std::lock_guard lock(state_->mutex);
    state_->slots = slots;
    while (!state_->free.empty() && state_->leased + static_cast<int>(state_->free.size()) > slots) {
      gone.push_back(std::move(state_->free.back()));
      state_->free.pop_back();
    }
  }
  for (MemoryBlock& block : gone) cache_block(std::move(block));
}

int BatchRing::slots() const {
  const std::lock_guard lock(of_this_process(*state_).mutex);
  return state_->slots;
}

int BatchRing::leased() const {
  const std::lock_guard lock(of_this_process(*state_).mutex);
  return state_->leased;
}

int64_t BatchRing::overflow_count() const { return state_->overflow_count.load(std::memory_order_relaxed); }

}  // namespace millrace::core
