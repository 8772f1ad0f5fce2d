// The state that a SharedRing shares with its leases, and the registry of all rings of a process for forks.
// For the two shared_ring*.cpp alone.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/fork_guard.h"
#include "core/shared_ring.h"

namespace millrace::core {

struct SharedRing::State : std::enable_shared_from_this<SharedRing::State> {
  std::vector<int> fds;
  int slots = 0, warm = 0;
  size_t stride = 0;
  uint64_t generation = fork_generation();  // of the process that made it

  // The mapped part of a slot in this process. It belongs to the taker or the lease of the slot, in a worker
  // to its one task, so it needs no lock.
  struct View {
    uint8_t* data = nullptr;
    size_t bytes = 0;
    bool kept = false;  // its address was given out
  };
  std::vector<View> views;

  std::mutex mutex;  // guards the members below; only the owner uses it
  struct Slot {
    size_t reserved = 0;
    size_t locked = 0;  // bytes in locked pages
    bool leased = false;
    int retired_for = 0;     // forks with children that may still read it
    bool came_back = false;  // while it was retired
  };
  std::vector<Slot> all;
  std::vector<int> free;  // the slot given back last is at the end
  int leased = 0;
  int came_back = 0;  // slots that only a child may still read
  bool closed = false;
  PageLocker locker;

  ~State();
  bool owner() const { return generation == fork_generation(); }
  int slots_of_file() const { return slots / static_cast<int>(fds.size()); }
  int fd_of(int slot) const { return fds[static_cast<size_t>(slot / slots_of_file())]; }
  off_t place(int slot, size_t offset) const {  // in its file
    return static_cast<off_t>(static_cast<size_t>(slot % slots_of_file()) * stride + offset);
  }
  // shared_ring_views.cpp:
  size_t whole_pages(size_t bytes) const;  // that many, up to the slot's end
  uint8_t* view(int slot, size_t bytes);
  bool extend(int slot, size_t bytes);
  void unmap(int slot);
  // Requires: no other thread can take the slot.
  void unlock(int slot) {
    if (std::exchange(all[static_cast<size_t>(slot)].locked, 0) > 0)
      locker.unlock(views[static_cast<size_t>(slot)].data);
  }
  void punch(int slot);
  void put(int slot);
  void punch_free();
  void child_ended(int slot);
};

// Every ring that this process made, so that a fork can retire the leased slots, and the forks with children
// that may still read some.
//
// Invariant: a slot's `retired_for` is the number of entries below that name it. A fork that finds the same
// slots leased as the newest entry joins it, which loses nothing: they come back when the last child has
// ended in either case. So does a fork that finds kMostForks entries, or no descriptor: then slots come back
// later than they could.
// Bound: kMostForks descriptors in the process.
class SharedRingForks {
 public:
  static constexpr size_t kMostForks = 16;

  static void add(SharedRing::State& ring);
  static void remove(SharedRing::State& ring);
  // Gives back the slots of forks with no child left. No lock of a ring may be held.
  static void take_back();
};

}  // namespace millrace::core
