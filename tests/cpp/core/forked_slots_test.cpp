// Slots of a shared ring that forked children may read: left alone while anybody lives who may, used again
// afterwards, at a bounded price.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../in_child.h"
#include "core/batch_ring.h"
#include "core/fork_witness.h"
#include "core/shared_ring.h"

namespace millrace::core {
namespace {

constexpr size_t kSlotBytes = 64 << 10;

int filled(SharedRing& ring, uint8_t value) {
  const int slot = ring.take();
  ring.set_reserved(slot, ring.reserve(slot, ring.reserved(slot), kSlotBytes));
  std::memset(ring.data(slot), value, kSlotBytes);
  return slot;
}

size_t descriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

size_t shared_pages(const SharedRing& ring) {
  struct stat status{};
  fstat(ring.fds()[0], &status);
  return static_cast<size_t>(status.st_blocks) * 512;
}

// A forked child that lives until end().
class Child {
 public:
  explicit Child(const std::function<bool()>& at_the_end = [] { return true; }, bool closes_all = false) {
    EXPECT_EQ(pipe(go_), 0);
    EXPECT_EQ(pipe(ready_), 0);
    pid_ = fork();
    if (pid_ == 0) {
      alarm(60);
      close(go_[1]);
      if (closes_all)
        for (int fd = 3; fd < 1000; ++fd)
          if (fd != go_[0] && fd != ready_[1]) close(fd);
      char byte = 'r';
      static_cast<void>(!write(ready_[1], &byte, 1));
      while (read(go_[0], &byte, 1) < 0) continue;
      _exit(at_the_end() ? 0 : 1);
    }
    close(go_[0]);
    close(ready_[1]);
    char byte;
    EXPECT_EQ(read(ready_[0], &byte, 1), 1);
    close(ready_[0]);
  }
  ~Child() {
    if (pid_ > 0) end();
  }
  bool end() {
    int status = 0;
    const bool told = write(go_[1], "x", 1) == 1;  // not by a close: children forked later have the end, too
    close(go_[1]);
    const bool ended = waitpid(std::exchange(pid_, -1), &status, 0) > 0;
    return told && ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  int go_[2], ready_[2];
  pid_t pid_;
};

TEST(ForkedSlots, OfAThousandShortLivedChildrenComeBack) {
  SharedRing ring(8, 4);
  const size_t before = descriptors();
  uint8_t value = 0;
  int held = filled(ring, value);
  auto lease = ring.lease(held);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(in_child([&] { return ring.data(held)[kSlotBytes - 1] == value; })) << i;
    const int next = filled(ring, ++value);  // always one left
    ASSERT_GE(next, 0) << i;
    lease = ring.lease(next);
    held = next;
  }
  lease.reset();
  EXPECT_EQ(ring.free_slots(), 8);
  EXPECT_LE(shared_pages(ring), 4 * kSlotBytes);
  EXPECT_LE(descriptors(), before + 1);
}

TEST(ForkedSlots, ComeBackWhenTheLastChildThatMayReadThemEnds) {
  SharedRing ring(8, 8);
  const int slot = filled(ring, 3), other = filled(ring, 4);
  auto lease = ring.lease(slot);
  Child first([&] { return ring.data(slot)[9] == 3; });
  auto second = ring.lease(other);
  Child later([&] { return ring.data(slot)[9] == 3 && ring.data(other)[9] == 4; });
  lease.reset();
  second.reset();
  EXPECT_EQ(ring.free_slots(), 6);
  EXPECT_EQ(ring.retired_slots(), 2);
  for (int i = 0; i < 20; ++i) ring.give_back(filled(ring, 99));
  EXPECT_TRUE(first.end());
  EXPECT_TRUE(ring.crowded(8));  // asks
  EXPECT_EQ(ring.free_slots(), 6);
  EXPECT_TRUE(later.end());
  EXPECT_FALSE(ring.crowded(8));
  EXPECT_EQ(ring.free_slots(), 8);
  EXPECT_EQ(ring.retired_slots(), 0);
}

TEST(ForkedSlots, AChildIsKnownThoughItClosesAllDescriptors) {
  SharedRing ring(2, 2);
  const int slot = filled(ring, 3);
  auto lease = ring.lease(slot);
  Child daemon([&] { return ring.data(slot)[9] == 3; }, true);
  lease.reset();
  ring.give_back(filled(ring, 99));
  EXPECT_EQ(ring.free_slots(), 1);
  EXPECT_TRUE(daemon.end());
  EXPECT_FALSE(ring.crowded(2));
}

TEST(ForkedSlots, AGrandchildMayReadLongerThanTheChild) {
  SharedRing ring(2, 2);
  const int slot = filled(ring, 3);
  auto lease = ring.lease(slot);
  int go[2], answer[2];
  ASSERT_EQ(pipe(go) | pipe(answer), 0);
  ASSERT_TRUE(in_child([&] {
    if (fork() == 0) {
      alarm(60);
      close(go[1]);
      char byte;
      static_cast<void>(!read(go[0], &byte, 1));
      byte = ring.data(slot)[9] == 3 ? 'y' : 'n';
      static_cast<void>(!write(answer[1], &byte, 1));
      _exit(0);
    }
    return true;
  }));
  lease.reset();
  ring.give_back(filled(ring, 99));
  EXPECT_EQ(ring.free_slots(), 1);
  close(go[1]);
  close(answer[1]);
  char byte = '?';
  EXPECT_EQ(read(answer[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  EXPECT_EQ(read(answer[0], &byte, 1), 0);  // it ends: nobody of ours can wait for it
  for (int i = 0; i < 2000 && ring.crowded(2); ++i) usleep(1000);
  EXPECT_EQ(ring.free_slots(), 2);
  close(go[0]);
  close(answer[0]);
}

TEST(ForkedSlots, AChildThatExecutesAnotherProgramReadsNothingAnyMore) {
  SharedRing ring(2, 2);
  auto lease = ring.lease(filled(ring, 3));
  int closes_at_exec[2];
  ASSERT_EQ(pipe2(closes_at_exec, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sleep", "sleep", "60", nullptr);
    _exit(1);
  }
  close(closes_at_exec[1]);
  char byte;
  EXPECT_EQ(read(closes_at_exec[0], &byte, 1), 0);
  lease.reset();
  for (int i = 0; i < 2000 && ring.crowded(2); ++i) usleep(1000);
  EXPECT_EQ(ring.free_slots(), 2);
  EXPECT_EQ(waitpid(child, nullptr, WNOHANG), 0);  // it lives
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(closes_at_exec[0]);
}

TEST(ForkedSlots, SpawnedProgramsRetireNothing) {
  SharedRing ring(2, 2);
  auto lease = ring.lease(filled(ring, 3));
  std::string sleep = "sleep", seconds = "60";
  char* words[] = {sleep.data(), seconds.data(), nullptr};
  pid_t child = -1;
  ASSERT_EQ(posix_spawn(&child, "/bin/sleep", nullptr, nullptr, words, environ), 0);
  lease.reset();
  EXPECT_EQ(ring.free_slots(), 2);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(ForkedSlots, AForkOnAnotherThreadCounts) {
  SharedRing ring(2, 2);
  const int slot = filled(ring, 3);
  auto lease = ring.lease(slot);
  std::unique_ptr<Child> child;
  std::thread([&] { child = std::make_unique<Child>([&] { return ring.data(slot)[9] == 3; }); }).join();
  lease.reset();
  ring.give_back(filled(ring, 99));
  EXPECT_EQ(ring.free_slots(), 1);
  EXPECT_TRUE(child->end());
  EXPECT_FALSE(ring.crowded(2));
}

TEST(ForkedSlots, AChildMakesARingAndForksLikeAnybody) {
  SharedRing ring(2, 2);
  auto lease = ring.lease(filled(ring, 3));
  EXPECT_TRUE(in_child([] {
    SharedRing own(4, 4);
    auto mine = own.lease(filled(own, 5));
    const bool fine = in_child([] { return true; });
    mine.reset();
    return fine && own.free_slots() == 4;
  }));
  lease.reset();
  EXPECT_EQ(ring.free_slots(), 2);
}

TEST(ForkedSlots, ManyLongLivedChildrenCostABoundedNumberOfDescriptorsAndSlots) {
  constexpr int kSlots = 64, kWorkingSet = 4;
  SharedRing ring(kSlots, kWorkingSet);
  const size_t before = descriptors();
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 40; ++i) {
    const bool copies = ring.crowded(kWorkingSet);
    EXPECT_EQ(copies, i >= kWorkingSet) << i;
    const int slot = filled(ring, static_cast<uint8_t>(i));
    ASSERT_GE(slot, 0);
    if (copies) {
      ring.give_back(slot);
      children.push_back(std::make_unique<Child>());
      continue;
    }
    auto lease = ring.lease(slot);
    children.push_back(std::make_unique<Child>([&ring, slot, i] { return ring.data(slot)[9] == i; }));
  }
  EXPECT_EQ(ring.retired_slots(), kWorkingSet);
  EXPECT_LE(shared_pages(ring), 2 * kWorkingSet * kSlotBytes);
  // Each child cost a pipe's end here, and those that read something a witness.
  EXPECT_LE(descriptors(), before + children.size() + kWorkingSet);
  for (const auto& child : children) EXPECT_TRUE(child->end());
  EXPECT_FALSE(ring.crowded(kWorkingSet));
  EXPECT_EQ(ring.free_slots(), kSlots);

  // Nobody asks crowded() here, so every child retires another slot.
  children.clear();
  for (int i = 0; i < 40; ++i) {
    const int slot = filled(ring, static_cast<uint8_t>(i));
    auto lease = ring.lease(slot);
    children.push_back(std::make_unique<Child>([&ring, slot, i] { return ring.data(slot)[9] == i; }));
  }
  EXPECT_EQ(ring.retired_slots(), 40);
  EXPECT_LE(descriptors(), before + children.size() + 16);
  for (const auto& child : children) EXPECT_TRUE(child->end());
  EXPECT_FALSE(ring.crowded(kWorkingSet));
  EXPECT_EQ(ring.retired_slots(), 0);
  EXPECT_EQ(descriptors(), before);
}

TEST(ForkedSlots, WithoutADescriptorTheyStayRetired) {
  SharedRing ring(4, 4);
  const int slot = filled(ring, 3);
  auto lease = ring.lease(slot);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  EXPECT_TRUE(in_child([&] { return ring.data(slot)[9] == 3; }));
  setrlimit(RLIMIT_NOFILE, &before);
  lease.reset();
  EXPECT_EQ(ring.retired_slots(), 1);  // rather than overwritten
  EXPECT_EQ(ring.free_slots(), 3);
}

TEST(ForkedSlots, AClosedRingKeepsNoPagesForChildrenThatEnded) {
  auto ring = std::make_unique<SharedRing>(4, 4);
  const int file = dup(ring->fds()[0]);  // as another child would have it
  auto lease = ring->lease(filled(*ring, 3));
  {
    Child child;
    lease.reset();
    EXPECT_EQ(ring->retired_slots(), 1);
  }
  ring.reset();
  struct stat status{};
  fstat(file, &status);
  EXPECT_EQ(status.st_blocks, 0);
  close(file);
}

// Blocks of a BatchRing are private memory, so a fork retires nothing: the first who writes to a page copies
// it.
TEST(ForkedSlots, PrivateMemoryNeedsNoRetirement) {
  empty_slot_cache();
  BatchRing ring(2);
  auto held = *ring.try_acquire(kSlotBytes);
  std::memset(held.data(), 7, kSlotBytes);
  const uint8_t* then = held.data();
  Child child([then] { return then[9] == 7 && then[kSlotBytes - 1] == 7; });
  for (int i = 0; i < 1000; ++i) {
    if (i < 200) {
      ASSERT_TRUE(in_child([&] { return held.data()[9] == 7; }));
    }
    auto next = *ring.try_acquire(kSlotBytes);
    std::memset(next.data(), 7, kSlotBytes);
    held = std::move(next);
    ASSERT_EQ(ring.leased(), 1);
  }
  std::memset(held.data(), 8, kSlotBytes);
  held = Lease();
  auto a = *ring.try_acquire(kSlotBytes), b = *ring.try_acquire(kSlotBytes);
  EXPECT_TRUE(a.data() == then || b.data() == then);  // the same pages, used again
  std::memset(a.data(), 9, kSlotBytes);
  std::memset(b.data(), 9, kSlotBytes);
  EXPECT_EQ(ring.overflow_count(), 0);
  EXPECT_TRUE(child.end());
}

TEST(ForkWitness, SeesThoseForkedWhileItIsThere) {
  ForkWitness witness;
  ASSERT_TRUE(witness.valid());
  Child unseen;
  ASSERT_TRUE(witness.appear());
  auto seen = std::make_unique<Child>();
  EXPECT_FALSE(witness.nobody_left());
  witness.disappear();
  EXPECT_FALSE(witness.nobody_left());
  ASSERT_TRUE(witness.appear());  // for another
  auto second = std::make_unique<Child>();
  witness.disappear();
  seen.reset();
  EXPECT_FALSE(witness.nobody_left());
  second.reset();
  EXPECT_TRUE(witness.nobody_left());
  EXPECT_FALSE(witness.appear());
}

}  // namespace
}  // namespace millrace::core
