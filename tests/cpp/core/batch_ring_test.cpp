// Leases: leased last-in first-out, never more than the ring has, valid after its end, harmless in a forked
// child.
#include "core/batch_ring.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "core/slot_memory.h"
#include "millrace/error.h"

namespace millrace::core {
namespace {

constexpr size_t kBytes = 100'000;

class Ring : public ::testing::Test {
 protected:
  void SetUp() override { empty_slot_cache(); }
  void TearDown() override { empty_slot_cache(); }
};

TEST_F(Ring, LeasesNoMoreThanItsSlots) {
  BatchRing ring(2);
  auto a = ring.try_acquire(kBytes), b = ring.try_acquire(kBytes);
  ASSERT_TRUE(a && b);
  EXPECT_NE(a->data(), b->data());
  EXPECT_EQ(a->size_bytes(), kBytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a->data()) % 64, 0u);
  EXPECT_FALSE(ring.try_acquire(1));
  a.reset();
  EXPECT_TRUE(ring.try_acquire(kBytes));
  EXPECT_EQ(ring.overflow_count(), 0);
}

TEST_F(Ring, NeedsASlot) { EXPECT_THROW(BatchRing(0), Error); }

TEST_F(Ring, LeasesTheSlotThatCameBackLast) {
  BatchRing ring(3);
  std::vector<Lease> leases;
  for (int i = 0; i < 3; ++i) leases.push_back(*ring.try_acquire(kBytes));
  const uint8_t* last = leases[1].data();
  leases[2] = {};
  leases[0] = {};
  leases[1] = {};
  EXPECT_EQ(ring.try_acquire(kBytes)->data(), last);
}

TEST_F(Ring, OneSlotServesSmallerAndLargerBatches) {
  BatchRing ring(1);
  for (const size_t bytes : {kBytes, size_t{10}, 50 * kBytes, size_t{0}, kBytes}) {
    auto lease = ring.try_acquire(bytes);
    ASSERT_TRUE(lease) << bytes;
    EXPECT_EQ(lease->size_bytes(), bytes);
    if (bytes) std::memset(lease->data(), 7, bytes);
  }
}

TEST_F(Ring, AddsASlotRatherThanThrowingAWarmOneAway) {
  BatchRing ring(2);
  const uint8_t* small = ring.try_acquire(kBytes)->data();
  {
    const auto large = ring.try_acquire(4 * kBytes);
  }
  auto again = ring.try_acquire(4 * kBytes);
  EXPECT_EQ(ring.try_acquire(kBytes)->data(), small);
}

TEST_F(Ring, AFailedAcquireLeavesTheSlotFreeAndCallsNobody) {
  int released = 0;
  BatchRing ring(1, [&released] { ++released; });
  EXPECT_THROW(ring.try_acquire(size_t{1} << 60), Error);
  EXPECT_EQ(released, 0);
  EXPECT_TRUE(ring.try_acquire(kBytes));
  EXPECT_EQ(released, 1);
}

TEST_F(Ring, OverflowIsCountedAndNotPartOfTheRing) {
  int released = 0;
  BatchRing ring(1, [&released] { ++released; });
  auto slot = ring.try_acquire(kBytes);
  {
    Lease extra = ring.acquire_overflow(kBytes);
    EXPECT_TRUE(extra.overflow());
    EXPECT_FALSE(slot->overflow());
    std::memset(extra.data(), 1, kBytes);
  }
  EXPECT_EQ(ring.overflow_count(), 1);
  EXPECT_FALSE(ring.try_acquire(kBytes)) << "an overflow lease freed a slot";
  EXPECT_EQ(released, 0);
  EXPECT_EQ(empty_slot_cache(), 0u) << "overflow memory goes back to the system";
}

TEST_F(Ring, LeasesOutliveTheRingAndEndInTheCache) {
  auto ring = std::make_unique<BatchRing>(2);
  auto lease = ring->try_acquire(kBytes);
  std::memset(lease->data(), 42, kBytes);
  {
    const auto warm = ring->try_acquire(kBytes);
  }
  ring.reset();
  EXPECT_EQ(lease->data()[kBytes - 1], 42);
  const size_t one = empty_slot_cache();
  EXPECT_GE(one, kBytes);
  lease.reset();
  EXPECT_EQ(empty_slot_cache(), one);
}

TEST_F(Ring, TheNextRingStartsWithWarmMemory) {
  const uint8_t* first = nullptr;
  {
    BatchRing ring(1);
    first = ring.try_acquire(kBytes)->data();
  }
  BatchRing ring(1);
  EXPECT_EQ(ring.try_acquire(kBytes)->data(), first);
}

TEST_F(Ring, CopiesAreTheirOwn) {
  const uint8_t bytes[] = {1, 2, 3};
  Lease copy = Lease::copy_of(bytes, sizeof bytes);
  EXPECT_EQ(std::memcmp(copy.data(), bytes, sizeof bytes), 0);
  EXPECT_EQ(copy.size_bytes(), sizeof bytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(copy.data()) % 64, 0u);
  EXPECT_FALSE(copy.overflow());
  copy = Lease::copy_of(bytes, 1);
  EXPECT_EQ(copy.size_bytes(), 1u);
}

TEST_F(Ring, MovingALeaseMovesTheRight) {
  BatchRing ring(1);
  Lease a = *ring.try_acquire(kBytes);
  Lease b = std::move(a);
  EXPECT_FALSE(a);
  EXPECT_TRUE(b);
  Lease& same = b;
  b = std::move(same);
  EXPECT_TRUE(b);
  EXPECT_FALSE(ring.try_acquire(1));
  b = Lease();
  EXPECT_TRUE(ring.try_acquire(1));
}

TEST_F(Ring, AForkedChildReadsItsLeasesAndGivesNothingBack) {
  std::atomic<int> released{0};
  auto ring = std::make_unique<BatchRing>(2, [&released] { ++released; });
  auto a = ring->try_acquire(kBytes), b = ring->try_acquire(kBytes);
  std::memset(a->data(), 5, kBytes);
  int to_child[2], to_parent[2];
  ASSERT_EQ(pipe(to_child) + pipe(to_parent), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    char go;
    if (read(to_child[0], &go, 1) != 1) _exit(9);
    const bool unchanged =
        a->data()[0] == 5 && a->data()[kBytes - 1] == 5;  // private memory: as it was at the fork
    a.reset();
    b.reset();
    int refused = 0;  // its lock may have been held at the fork
    const auto count_refusal = [&refused](const auto& call) {
      try {
        call();
      } catch (const Error& error) {
        refused += error.kind() == ErrorKind::unavailable;
      }
    };
    count_refusal([&] { ring->try_acquire(1); });
    count_refusal([&] { ring->set_slots(3); });
    count_refusal([&] { ring->slots(); });
    count_refusal([&] { ring->leased(); });
    if (refused != 4) _exit(8);
    ring.reset();
    BatchRing own(1);
    auto fresh = own.try_acquire(kBytes);
    std::memset(fresh->data(), 1, kBytes);
    _exit(unchanged && released == 0 ? 0 : 1);
  }
  std::memset(a->data(), 6, kBytes);
  ASSERT_EQ(write(to_child[1], "g", 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(a->data()[0], 6);
  EXPECT_FALSE(ring->try_acquire(1)) << "the child's drops reached the parent";
  for (const int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) close(fd);
}

TEST_F(Ring, ManyThreadsNeverShareASlot) {
  constexpr int kSlots = 4, kThreads = 4, kRounds = 2000;
  std::atomic<int> released{0};
  auto ring = std::make_unique<BatchRing>(kSlots, [&released] { ++released; });
  std::atomic<int> leased{0}, acquired{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<Lease> held;
      for (int i = 0; i < kRounds; ++i) {
        const size_t bytes = 1000 + random() % 200'000;
        if (auto lease = ring->try_acquire(bytes)) {
          ASSERT_LE(++leased, kSlots);
          ++acquired;
          std::memset(lease->data(), t + 1, 1000);
          held.push_back(std::move(*lease));
        }
        if (!held.empty() && random() % 2) {
          for (int b = 0; b < 1000; ++b) ASSERT_EQ(held.front().data()[b], t + 1);
          --leased;
          held.erase(held.begin());
        }
      }
      leased -= static_cast<int>(held.size());
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(released, acquired);
  EXPECT_GT(acquired, 0);
}

TEST(BatchRing, TheBoundMayChangeWhileSlotsAreOut) {
  BatchRing ring(3);
  std::vector<Lease> held;
  for (int i = 0; i < 3; ++i) held.push_back(std::move(*ring.try_acquire(100)));
  ring.set_slots(1);
  EXPECT_EQ(ring.slots(), 1);
  held.pop_back();
  EXPECT_FALSE(ring.try_acquire(100)) << "two are still out";
  held.clear();
  {
    const auto only = ring.try_acquire(100);
    EXPECT_TRUE(only);
    EXPECT_FALSE(ring.try_acquire(100));
    ring.set_slots(2);
    EXPECT_TRUE(ring.try_acquire(100));
  }
  EXPECT_EQ(ring.overflow_count(), 0);
  EXPECT_THROW(ring.set_slots(0), Error);
}

}  // namespace
}  // namespace millrace::core
