// TurnGate: never more at work than the limit, the first one always may, changes and the end are seen, in one
// process and in several.
#include "core/turn_gate.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "millrace/error.h"

namespace millrace::core {
namespace {

constexpr int64_t kLong = 20'000'000'000, kShort = 5'000'000;

// `workers` threads that do tasks k, k + workers, ... each; returns how many were at work at most.
int most_at_work(const std::shared_ptr<TurnGate::State>& state, int workers, uint32_t first, uint32_t tasks) {
  std::atomic<int> active{0}, most{0};
  std::vector<std::thread> threads;
  for (int k = 0; k < workers; ++k)
    threads.emplace_back([&, k] {
      TurnGate gate(state);
      for (uint32_t n = static_cast<uint32_t>(k); n < tasks; n += static_cast<uint32_t>(workers)) {
        ASSERT_TRUE(gate.wait(first + n, kLong));
        const int now = ++active;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        std::this_thread::sleep_for(std::chrono::microseconds(n % 7 * 100));
        --active;
        gate.end();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return most;
}

TEST(TurnGate, NoMoreThanTheLimit) {
  for (const int limit : {1, 2, 5}) {
    const auto state = std::make_shared<TurnGate::State>();
    TurnGate(state).set_limit(limit);
    EXPECT_LE(most_at_work(state, 5, 0, 100), limit);
    EXPECT_EQ(state->allowed, 100u + static_cast<uint32_t>(limit));
  }
}

TEST(TurnGate, NumbersMayGoRound) {
  const auto state = std::make_shared<TurnGate::State>();
  const uint32_t first = 0xFFFF'FFF0u;
  state->allowed = first;
  TurnGate(state).set_limit(2);
  EXPECT_LE(most_at_work(state, 4, first, 60), 2);
}

TEST(TurnGate, ALimitThatChangesIsSeenByWhoeverWaits) {
  TurnGate gate = TurnGate::in_own_memory();
  EXPECT_FALSE(gate.wait(0, kShort));  // no limit yet
  std::thread waits([&] { EXPECT_TRUE(gate.wait(2, kLong)); });
  gate.set_limit(3);
  waits.join();
  gate.set_limit(1);
  EXPECT_TRUE(gate.wait(0, kShort));
  EXPECT_FALSE(gate.wait(1, kShort));
  gate.end();
  EXPECT_TRUE(gate.wait(1, kShort));
  EXPECT_THROW(gate.set_limit(0), Error);
}

TEST(TurnGate, OpenAndClosed) {
  TurnGate gate = TurnGate::in_own_memory();
  gate.set_limit(1);
  std::thread waits([&] { EXPECT_TRUE(gate.wait(1'000'000, kLong)); });
  gate.open();
  waits.join();
  gate.set_limit(1);  // says nothing any more
  EXPECT_TRUE(gate.wait(2'000'000, kShort));
  gate.close();
  EXPECT_FALSE(gate.wait(0, kLong));
  EXPECT_TRUE(gate.closed());
}

TEST(TurnGate, ClosingWakesWhoeverWaits) {
  TurnGate gate = TurnGate::in_own_memory();
  std::thread waits([&] { EXPECT_FALSE(gate.wait(7, kLong)); });
  gate.close();
  waits.join();
}

TEST(TurnGate, AcrossProcesses) {
  void* memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::shared_ptr<TurnGate::State> state(new (memory) TurnGate::State, [](auto*) {});
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    TurnGate gate(state);
    const bool came = gate.wait(1, kLong);
    gate.end();
    ::_exit(came ? 0 : 1);
  }
  TurnGate gate(state);
  gate.set_limit(1);
  EXPECT_FALSE(gate.wait(2, kShort));
  gate.end();                        // of task 0: now the child may
  EXPECT_TRUE(gate.wait(2, kLong));  // and has ended
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  ::munmap(memory, 4096);
}

}  // namespace
}  // namespace millrace::core
