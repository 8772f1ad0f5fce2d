// SharedRing: memory of batches. Worker processes fill it; the process that made it leases it to tensors.
//
// One anonymous file (memfd) or a few. They are cut into ranges of equal stride, the slots, most of which
// never get a page: a slot takes memory as far as a batch in it reached, and keeps it, because fresh pages
// cost more than the batch. So no size is agreed on, and a batch may be longer than the last.
//
// Address space: a process maps a slot when it uses it, as far as its batch reaches and an eighth more, and
// maps it at another address for a longer batch. So hundreds of rings live beside each other, and a limit on
// address space (ulimit -v) counts batches. The owner unmaps a slot when its memory goes to the system; a
// worker keeps its mappings, until the kernel refuses one.
//
//   free -> filling (taken for a task) -> leased (while tensors over it live) -> free
//
// Invariant: only the process that made the ring changes which slot is free; no such state lies in shared
// memory, so a killed worker leaves nothing to repair: its slot is simply not accepted. A worker writes to a
// slot between the task that names it and the answer, at no other time. A leased slot is mapped whole, and
// does not move.
// Fork: a child may read the slots leased when it was forked, for as long as it lives. Those slots are
// retired: they are used again when the child, and all processes that it forked, have ended or execute
// another program (fork_witness.h). The ring checks this when such a slot is given back, and when a slot
// without memory is taken instead, so children that have ended cost at most a working set. crowded() says
// when living children keep so much that batches should be copied: a slot that is not leased at a fork is not
// retired. In the child, ending a lease does nothing. Processes that are cloned without fork()'s handlers are
// not known, and must not read batches.
// Bound: `slots` slots, of which at most `warm` free ones keep their memory; 16 descriptors for all forks.
// Threads: the owner's calls from any thread (one lock).
// Ends: with the ring and the last lease; the kernel frees the pages when the workers' mappings are gone too,
// free slots at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/checked.h"

namespace millrace::core {

// Fields of a batch begin at whole cache lines, one after the other in its slot.
inline constexpr size_t kFieldAlignment = 64;

// Where the next field begins when one ends at `end` bytes.
inline size_t aligned_field(size_t end) {
  return base::checked_add(end, kFieldAlignment - 1, "batch") / kFieldAlignment * kFieldAlignment;
}

// Locks pages in memory, for copies to a device, and unlocks them; `lock` returns why it failed; empty: it
// succeeded.
struct PageLocker {
  std::function<std::string(void* data, size_t bytes)> lock;
  std::function<void(void* data)> unlock;
};

class SharedRing {
 public:
  struct State;  // shared_ring_state.h

  // Makes the files, which the slots are taken from in turn: the kernel gives a file memory for one process
  // at a time, so two workers that begin with fresh slots of one file take twice as long. There may be a few
  // more slots than `slots`. Throws Error(system) when the system has no descriptor left.
  SharedRing(int slots, int warm, int files = 1);
  // A worker's view of the ring in the files `fds`, which this object then owns; for filling only.
  SharedRing(std::vector<int> fds, int slots, size_t stride);
  ~SharedRing();
  SharedRing(const SharedRing&) = delete;
  SharedRing& operator=(const SharedRing&) = delete;

  const std::vector<int>& fds() const;
  int slots() const;
  size_t stride() const;  // bytes from one slot to the next, the most a batch can take
  // Any process: the slot's address; null before it is mapped. Aligned to pages.
  uint8_t* data(int slot) const;

  // Any process: maps the slot's first `bytes` and returns its address. Another call, or a reserve(), for
  // more of the slot may move them. Throws Error(system, ENOMEM) when there is no address space.
  uint8_t* map(int slot, size_t bytes) const;

  // Any process: reserve() for bytes that keep their address as long as the ring lives; no more of this slot
  // can be mapped.
  uint8_t* keep(int slot, size_t bytes) const;

  // Any process: makes sure that the first `needed` bytes of the slot are mapped and have memory, when the
  // first `reserved` have it; returns the bytes with memory now. Throws Error(system, ENOMEM) with a sentence
  // instead of running into the memory limit: a later write never finds the memory missing.
  size_t reserve(int slot, size_t reserved, size_t needed) const;

  // Any process: the same for the bytes from `begin` to `end` alone.
  void reserve_range(int slot, size_t begin, size_t end) const;

  // Any process: copies into a part of the slot that may have no memory yet, and gives it some. Fresh pages
  // cost half as much this way as reserved and then written (38 MB: 15 ms against 26), warm ones twice.
  // Throws Error(system).
  void write(int slot, size_t offset, const void* from, size_t bytes) const;

  // Any process: copies a written part out of the slot. Needs no address space.
  void read(int slot, size_t offset, void* into, size_t bytes) const;

  // Owner:
  int take();                // a free slot, the one given back last; -1 when there is none
  void give_back(int slot);  // taken, not leased
  void set_reserved(int slot, size_t bytes);
  size_t reserved(int slot) const;
  std::shared_ptr<const void> lease(
      int slot);               // taken -> leased; free again when the last copy dies, on any thread
  void prefer_node(int node);  // the node of fresh pages, whichever process touches them first; numa.h
  // Locks the memory of a taken slot, once. It stays locked until the memory is given to the system, or until
  // the slot has grown, was not locked again and is leased. Returns why it failed; empty: it is locked. The
  // ring keeps the first locker and may call it until the last lease ends, on any thread.
  std::string lock_pages(int slot, const PageLocker& locker);
  int free_slots() const;
  int leased_slots() const;
  int retired_slots() const;  // given back, but a child may still read them
  // Whether a batch should be copied out of its slot rather than leased: fewer than `working_set` slots are
  // free, or children keep as many.
  bool crowded(int working_set);
  size_t memory_bytes() const;  // reserved in all slots

 private:
  struct Lease;
  std::shared_ptr<State> state_;  // shared with the leases, which may outlive the ring
};

}  // namespace millrace::core
