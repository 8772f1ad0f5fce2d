// The shared ring: slots go round, keep their memory, outlive the ring while leased, and a fork changes
// nothing it should not.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "../in_child.h"
#include "core/memory_budget.h"
#include "core/shared_ring.h"
#include "millrace/error.h"

namespace millrace::core {
namespace {

size_t pages_of(const SharedRing& ring) {
  struct stat status{};
  fstat(ring.fds()[0], &status);
  return static_cast<size_t>(status.st_blocks) * 512;
}

size_t fill(SharedRing& ring, int slot, size_t bytes, uint8_t value) {
  const size_t reserved = ring.reserve(slot, ring.reserved(slot), bytes);
  ring.set_reserved(slot, reserved);
  std::memset(ring.data(slot), value, bytes);
  return reserved;
}

TEST(SharedRing, TheSlotThatCameBackLastIsTakenFirst) {
  SharedRing ring(4, 4);
  const int a = ring.take(), b = ring.take();
  EXPECT_EQ(ring.free_slots(), 2);
  ring.give_back(a);
  ring.give_back(b);
  EXPECT_EQ(ring.take(), b);
  EXPECT_EQ(ring.take(), a);
  ring.take();
  ring.take();
  EXPECT_EQ(ring.take(), -1);
}

TEST(SharedRing, SlotsGrowInPlaceAndKeepTheirMemory) {
  SharedRing ring(64, 8);
  EXPECT_EQ(pages_of(ring), 0u);
  const int slot = ring.take();
  fill(ring, slot, 5000, 1);
  const size_t grown = fill(ring, slot, 3 << 20, 2);
  EXPECT_EQ(grown, size_t{3} << 20);
  EXPECT_EQ(pages_of(ring), size_t{3} << 20);
  ring.give_back(slot);
  EXPECT_EQ(pages_of(ring), size_t{3} << 20);
  EXPECT_EQ(ring.reserve(slot, grown, 100), grown);
}

TEST(SharedRing, FreeSlotsBeyondTheWorkingSetGiveTheirMemoryBack) {
  SharedRing ring(16, 2);
  std::vector<int> slots;
  for (int i = 0; i < 6; ++i) fill(ring, slots.emplace_back(ring.take()), 1 << 20, 1);
  for (const int slot : slots) ring.give_back(slot);
  EXPECT_EQ(pages_of(ring), size_t{2} << 20);
  EXPECT_EQ(ring.free_slots(), 16);
  EXPECT_EQ(ring.take(), slots.back());
}

// The address space of this process, in bytes.
size_t addresses() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

constexpr size_t kBatch = size_t{1} << 20;

TEST(SharedRing, TakesTheAddressSpaceOfItsBatchesAndGivesItBack) {
  constexpr int kRings = 200;
  const size_t before = addresses();
  {
    std::vector<std::unique_ptr<SharedRing>> rings;
    std::vector<std::shared_ptr<const void>> leases;
    for (int i = 0; i < kRings; ++i) {
      SharedRing& ring = *rings.emplace_back(std::make_unique<SharedRing>(256, 2));
      for (int k = 0; k < 4; ++k) {
        const int slot = ring.take();
        fill(ring, slot, 4096, 1);
        fill(ring, slot, i < 20 ? kBatch : 4096, 2);
        leases.push_back(ring.lease(slot));
      }
    }
    EXPECT_LT(addresses() - before, 2 * 4 * 20 * kBatch + kRings * kBatch / 4);
    leases.clear();  // two of each keep their memory
    EXPECT_LT(addresses() - before, 2 * 2 * 20 * kBatch + kRings * kBatch / 4);
  }
  EXPECT_LT(addresses(), before + 4 * kBatch);
}

TEST(SharedRing, ASlotMovesWithItsBytesUntilItIsLeased) {
  SharedRing ring(4, 4);
  const int slot = ring.take();
  fill(ring, slot, 4096, 3);
  ring.reserve(slot, ring.reserved(slot), 64 * kBatch);
  EXPECT_EQ(ring.data(slot)[4095], 3);
  const auto lease = ring.lease(slot);
  EXPECT_THROW(ring.map(slot, 100 * kBatch), Error);
  const int kept = ring.take();
  const uint8_t* place = ring.keep(kept, 4096);
  EXPECT_THROW(ring.map(kept, 100 * kBatch), Error);
  EXPECT_EQ(ring.data(kept), place);
}

// The sanitizers' own memory is terabytes of addresses.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(SharedRing, WhereAddressesAreFewAWorkerHasThoseOfOneBatch) {
  SharedRing ring(64, 4);
  EXPECT_TRUE(in_child([&] {
    const SharedRing mine(std::vector<int>{dup(ring.fds()[0])}, ring.slots(), ring.stride());
    uint8_t* board = mine.keep(63, 4096);
    board[0] = 7;
    const rlimit few{addresses() + 64 * kBatch, RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &few) != 0) return false;
    for (int slot = 0; slot < 60; ++slot) {
      mine.reserve(slot, 0, 4096);
      mine.map(slot, 20 * kBatch)[0] = 1;
    }
    if (mine.data(63) != board || board[0] != 7 || mine.map(0, 4096)[0] != 1) return false;
    try {
      mine.map(1, 100 * kBatch);
      return false;
    } catch (const Error& error) {
      return error.code() == ENOMEM && std::string(error.what()).find("ulimit -v") != std::string::npos;
    }
  }));
}
#endif

TEST(SharedRing, LeasesOutliveTheRing) {
  auto ring = std::make_unique<SharedRing>(4, 4);
  const int slot = ring->take();
  fill(*ring, slot, 4096, 7);
  const uint8_t* data = ring->data(slot);
  auto lease = ring->lease(slot);
  auto second = lease;
  const int fd = dup(ring->fds()[0]);
  ring.reset();
  lease.reset();
  EXPECT_EQ(data[4095], 7);
  second.reset();
  struct stat status{};
  fstat(fd, &status);
  EXPECT_EQ(status.st_blocks, 0);  // also while somebody has the file
  close(fd);
}

TEST(SharedRing, AnotherProcessFillsIt) {
  SharedRing ring(4, 4);
  const int slot = ring.take();
  EXPECT_TRUE(in_child([&] {
    SharedRing mine(std::vector<int>{dup(ring.fds()[0])}, ring.slots(), ring.stride());
    mine.reserve(slot, 0, 10000);
    std::memset(mine.data(slot), 9, 10000);
    return true;
  }));
  EXPECT_EQ(ring.map(slot, 10'000)[9999], 9);
}

TEST(SharedRing, SlotsComeFromAllFilesInTurnAndKeepApart) {
  SharedRing ring(5, 6, 3);
  EXPECT_EQ(ring.slots(), 6);
  EXPECT_EQ(ring.fds().size(), 3u);
  std::vector<int> slots;
  for (int i = 0; i < 6; ++i) {
    fill(ring, slots.emplace_back(ring.take()), 8192, static_cast<uint8_t>(i + 1));
    if (i == 0) {
      EXPECT_EQ(pages_of(ring), 8192u);
    }
    if (i == 2) {
      EXPECT_EQ(pages_of(ring), 8192u);
    }  // the others went to the other files
  }
  EXPECT_EQ(ring.take(), -1);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(ring.data(slots[static_cast<size_t>(i)])[8191], i + 1);
  EXPECT_TRUE(in_child([&] {
    std::vector<int> fds;
    for (const int fd : ring.fds()) fds.push_back(dup(fd));
    const SharedRing mine(fds, ring.slots(), ring.stride());
    for (int i = 0; i < 6; ++i)
      if (mine.map(slots[static_cast<size_t>(i)], 1)[0] != i + 1) return false;
    return true;
  }));
}

// Pages that are locked, and that they are while the file has them.
struct LockedPages {
  std::map<void*, size_t> locked;
  int locks = 0;
  bool fail = false;
  PageLocker locker() {
    return {[this](void* data, size_t bytes) -> std::string {
              EXPECT_FALSE(locked.contains(data));
              if (fail) return "no room";
              locked[data] = bytes;
              ++locks;
              return "";
            },
            [this](void* data) {
              EXPECT_EQ(static_cast<uint8_t*>(data)[0], 1) << "unlocked when its memory had gone";
              EXPECT_EQ(locked.erase(data), 1u);
            }};
  }
};

TEST(SharedRing, PagesAreLockedOnceAndUnlockedBeforeTheyGo) {
  LockedPages pages;
  {
    SharedRing ring(8, 2, 2);
    std::vector<int> slots;
    for (int i = 0; i < 4; ++i) {
      fill(ring, slots.emplace_back(ring.take()), 8192, 1);
      EXPECT_EQ(ring.lock_pages(slots.back(), pages.locker()), "");
      EXPECT_EQ(ring.lock_pages(slots.back(), pages.locker()), "");
    }
    EXPECT_EQ(pages.locks, 4);
    for (const int slot : slots) ring.give_back(slot);
    EXPECT_EQ(pages.locked.size(), 2u);  // of the warm ones
    const int slot = ring.take();
    fill(ring, slot, 20'000, 1);
    EXPECT_EQ(ring.lock_pages(slot, pages.locker()), "");
    EXPECT_EQ(pages.locked[ring.data(slot)], 20'480u);
    const auto lease = ring.lease(slot);
    EXPECT_TRUE(
        in_child([&] { return pages.locked.size() == 2; }));  // whose copy of the ring unlocks nothing
  }
  EXPECT_TRUE(pages.locked.empty());
}

TEST(SharedRing, ASlotThatHasGrownBeyondItsLockedPagesIsLeasedUnlocked) {
  LockedPages pages;
  SharedRing ring(4, 4);
  const int slot = ring.take();
  fill(ring, slot, 8192, 1);
  EXPECT_EQ(ring.lock_pages(slot, pages.locker()), "");
  ring.lease(slot);
  EXPECT_EQ(pages.locked.size(), 1u);
  EXPECT_EQ(ring.take(), slot);
  fill(ring, slot, 20'000, 1);  // and nobody asks for its pages any more
  const auto large = ring.lease(slot);
  EXPECT_TRUE(pages.locked.empty());
}

TEST(SharedRing, PagesThatCannotBeLockedAreSaidSo) {
  LockedPages pages{.locked = {}, .locks = 0, .fail = true};
  SharedRing ring(4, 4);
  const int slot = ring.take();
  fill(ring, slot, 4096, 1);
  EXPECT_EQ(ring.lock_pages(slot, pages.locker()), "no room");
  EXPECT_EQ(ring.data(slot)[0], 1);
}

TEST(SharedRing, WhatIsWrittenToFreshMemoryIsThere) {
  SharedRing ring(4, 4, 2);
  ring.take();
  const int slot = ring.take();
  const std::vector<uint8_t> bytes(100'000, 5);
  ring.write(slot, 777, bytes.data(), bytes.size());
  const uint8_t* there = ring.map(slot, 100'778);
  EXPECT_EQ(there[776], 0);
  EXPECT_EQ(there[777], 5);
  EXPECT_EQ(there[100'776], 5);
  EXPECT_EQ(there[100'777], 0);
}

TEST(SharedRing, AForkedChildKeepsWhatItInherited) {
  SharedRing ring(8, 8);
  const int slot = ring.take();
  fill(ring, slot, 4096, 3);
  auto lease = ring.lease(slot);
  int to_child[2], to_parent[2];
  ASSERT_EQ(pipe(to_child) | pipe(to_parent), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    char go;
    const bool told = read(to_child[0], &go, 1) == 1;  // after the parent has gone on
    const bool intact = ring.data(slot)[100] == 3;
    lease.reset();  // nobody's slot
    _exit(told && intact ? 0 : 1);
  }
  lease.reset();
  EXPECT_EQ(ring.free_slots(), 7);  // retired
  for (int i = 0; i < 20; ++i) {
    const int next = ring.take();
    EXPECT_NE(next, slot);
    fill(ring, next, 4096, 4);
    ring.give_back(next);
  }
  ASSERT_EQ(write(to_child[1], "x", 1), 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(SharedRing, SlotsAreTakenAndDroppedOnManyThreadsWhileProcessesFork) {
  SharedRing ring(32, 4);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&ring, &stop, t] {
      std::mt19937 random(static_cast<uint32_t>(t));
      while (!stop) {
        const int slot = ring.take();
        if (slot < 0) continue;
        fill(ring, slot, 1 + random() % 20000, static_cast<uint8_t>(t));
        if (random() % 2) {
          auto lease = ring.lease(slot);
          EXPECT_EQ(ring.data(slot)[0], t);
        } else {
          ring.give_back(slot);
        }
      }
    });
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(in_child([] { return true; }));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ring.leased_slots(), 0);
}

TEST(SharedRing, TooLongABatchAndTooLittleMemoryAreSentences) {
  SharedRing ring(4096, 1);
  try {
    ring.reserve(0, 0, ring.stride() + 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), EFBIG);
  }
  SharedRing long_slots(1, 1);
  try {
    long_slots.reserve(0, 0, long_slots.stride());  // terabytes
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ENOMEM);
    EXPECT_NE(std::string(error.what()).find("batch_size"), std::string::npos) << error.what();
  }
}

TEST(MemoryBudget, IsSomeMemoryAndNamesItsLimit) {
  const MemoryBudget budget = memory_budget();
  EXPECT_GT(budget.available_bytes, size_t{1} << 20);
  EXPECT_LT(budget.available_bytes, size_t{1} << 50);
  EXPECT_FALSE(budget.limit.empty());
  EXPECT_NO_THROW(refuse_if_memory_is_short(4096, "a test"));
}

}  // namespace
}  // namespace millrace::core
