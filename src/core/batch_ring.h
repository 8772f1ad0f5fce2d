// BatchRing: the memory of batches. Slots are used again and again; a Lease leases one to the holder of the
// tensor.
//
// A slot is one field of one batch: free -> filling -> leased -> free. Its pages stay mapped between batches,
// so a batch costs no allocation and no page fault once the ring is warm; the slot returned last is leased
// first.
// Bound: `slots` slots; set_slots() changes it while the ring is in use. When all are leased,
// acquire_overflow() hands out memory of its own, given back to the system on return and counted; so a
// program that keeps every batch gets every batch, and no thread waits for ever.
// Threads: all members may be called from any thread; a Lease may be dropped on any thread, also after the
// ring is gone (the slots live until the last lease ends).
// In a forked child a lease can be read (it sees the memory as it was at the fork) and dropping it does
// nothing: the parent owns the memory. A ring belongs to the process that made it.
// Blocks of a closed ring go to a process-wide cache of bounded size (slot_memory.h), so that the next
// epoch's ring starts warm. If the ring has a source of blocks, each lease takes a block from the source and
// releases it: a copy to a device that the program queued may still read a returned block, and only the
// source knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "core/slot_memory.h"

namespace millrace::core {

class BatchRing;

// Fields smaller than this are handed out as copies: keeping a small tensor must not keep a whole slot.
inline constexpr size_t kSmallFieldBytes = size_t{64} << 10;

// Move-only right to a slot's memory. Dropping it gives the slot back. One thread at a time.
class Lease {
 public:
  Lease() noexcept;
  Lease(Lease&&) noexcept;
  Lease& operator=(Lease&&) noexcept;
  ~Lease();

  // Memory of its own with a copy of `bytes`, 64-byte aligned, part of no ring.
  static Lease copy_of(const uint8_t* bytes, size_t size_bytes);

  // Makes the slot's memory `size_bytes` long; its old content is lost. Keeps the slot.
  void resize(size_t size_bytes);

  // Further memory from the slot's source, 64-byte aligned, part of no ring. Throws Error(system).
  Lease beside(size_t size_bytes) const;

  uint8_t* data() const;  // 64-byte aligned
  size_t size_bytes() const;
  bool overflow() const;
  std::shared_ptr<void> owner() const;  // of a block from a source; its holder may outlive the lease
  explicit operator bool() const { return slot_ != nullptr; }

 private:
  friend class BatchRing;
  struct Slot;
  explicit Lease(std::unique_ptr<Slot> slot) noexcept;
  void give_back() noexcept;
  std::unique_ptr<Slot> slot_;
};

class BatchRing {
 public:
  // `on_release` is called whenever a slot is given back, on the dropping thread and with no lock held; it
  // may be called after the ring is gone (a callback that needs a living target holds a weak_ptr to it), and
  // must not throw.
  explicit BatchRing(int slots, std::function<void()> on_release = {}, BlockSource source = {});
  ~BatchRing();  // never waits for leases
  BatchRing(const BatchRing&) = delete;
  BatchRing& operator=(const BatchRing&) = delete;

  // A free slot of at least `bytes`, or nothing when all are leased.
  std::optional<Lease> try_acquire(size_t bytes);
  Lease acquire_overflow(size_t bytes);

  // At least 1. A lower bound takes nothing back: existing leases stay valid, and no slot is leased until
  // enough of them are back. Free blocks beyond the bound go to the cache. A higher bound calls no
  // on_release: the caller wakes the waiting threads.
  void set_slots(int slots);
  int slots() const;
  int leased() const;              // slots, at this moment
  int64_t overflow_count() const;  // since construction

 private:
  friend class Lease;
  struct State;
  std::shared_ptr<State> state_;  // shared with the slots, which may be given back after the ring is gone
};

// Gives cached blocks back to the system; returns the bytes freed.
size_t empty_slot_cache();

}  // namespace millrace::core
