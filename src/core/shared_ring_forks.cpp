// Retires the leased slots of all rings at a fork, until a witness says that no child is left.
#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/fork_witness.h"
#include "core/shared_ring_state.h"

namespace millrace::core {
namespace {

using State = SharedRing::State;

struct RetiredSlot {
  std::weak_ptr<State> ring;
  int slot;
  bool operator==(const RetiredSlot& other) const {
    return slot == other.slot && !ring.owner_before(other.ring) && !other.ring.owner_before(ring);
  }
};

// Children that were forked at one moment, or at several between which nothing changed.
struct Fork {
  ForkWitness witness;
  std::vector<RetiredSlot> slots;
};

struct Registry {
  std::mutex mutex;  // taken before any ring's
  std::vector<State*> rings;
  std::vector<std::unique_ptr<Fork>> forks;  // the newest is the last
  std::vector<RetiredSlot> ended;            // of forks with no child left, to be given back
  ForkWitness* present = nullptr;            // while a fork is under way

  void look_for_ended() {
    std::erase_if(forks, [this](const std::unique_ptr<Fork>& fork) {
      if (!fork->witness.nobody_left()) return false;
      std::move(fork->slots.begin(), fork->slots.end(), std::back_inserter(ended));
      return true;
    });
  }

  // The rings' locks are held, too.
  void retire_leased() {
    std::vector<RetiredSlot> leased;
    std::vector<State*>
        whose;  // not through the weak pointers: destroying a ring locked from one would take this lock again
    for (State* ring : rings)
      for (int slot = 0; slot < static_cast<int>(ring->all.size()); ++slot)
        if (ring->all[static_cast<size_t>(slot)].leased) {
          leased.push_back({ring->weak_from_this(), slot});
          whose.push_back(ring);
        }
    if (leased.empty()) return;
    if (!forks.empty() && forks.back()->slots == leased && forks.back()->witness.appear()) {
      present = &forks.back()->witness;
      return;
    }
    Fork* fork = nullptr;
    look_for_ended();  // only looks: giving slots back would need locks that are held
    if (forks.size() < SharedRingForks::kMostForks) {
      auto fresh = std::make_unique<Fork>();
      if (fresh->witness.appear()) {
        forks.push_back(std::move(fresh));
        fork = forks.back().get();
      }
    }
    if (fork == nullptr && !forks.empty() && forks.back()->witness.appear()) fork = forks.back().get();
    if (fork != nullptr) present = &fork->witness;
    for (size_t i = 0; i < leased.size(); ++i) {
      if (fork != nullptr &&
          std::find(fork->slots.begin(), fork->slots.end(), leased[i]) != fork->slots.end())
        continue;
      ++whose[i]->all[static_cast<size_t>(leased[i].slot)].retired_for;  // without a witness: for ever
      if (fork != nullptr) fork->slots.push_back(std::move(leased[i]));
    }
  }
};
Registry& registry =
    *new Registry;  // made at load time and never destroyed: leases may end after static destructors ran

// Locks are held over fork() so that the child sees no list half changed; the child never takes a ring's lock
// again (owner()).
void before_fork() {
  registry.mutex.lock();
  for (State* ring : registry.rings) ring->mutex.lock();
  registry.retire_leased();
}

void unlock_all() {
  for (State* ring : registry.rings) ring->mutex.unlock();
}

void in_parent() {
  unlock_all();
  if (registry.present != nullptr) std::exchange(registry.present, nullptr)->disappear();
  registry.mutex.unlock();
}

void in_child() {
  unlock_all();
  registry.present =
      nullptr;  // stays mapped: so long, the parent leaves alone the slots that this process may read
  registry.forks.clear();  // the forks, the rings and the ended slots are the parent's
  registry.ended.clear();
  registry.rings.clear();
  registry.mutex.unlock();
}

[[maybe_unused]] const int at_forks = pthread_atfork(before_fork, in_parent, in_child);

}  // namespace

void SharedRingForks::add(State& ring) {
  const std::lock_guard lock(registry.mutex);
  registry.rings.push_back(&ring);
}

void SharedRingForks::remove(State& ring) {
  const std::lock_guard lock(registry.mutex);
  std::erase(registry.rings, &ring);
}

void SharedRingForks::take_back() {
  std::vector<RetiredSlot> ended;
  {
    const std::lock_guard lock(registry.mutex);
    registry.look_for_ended();
    ended.swap(registry.ended);
  }
  for (const RetiredSlot& slot : ended)
    if (const auto ring = slot.ring.lock(); ring && ring->owner()) ring->child_ended(slot.slot);
}

}  // namespace millrace::core
