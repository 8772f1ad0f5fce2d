// A process ends soon after the one that it depends on, whatever it is doing, and not before.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "core/end_with_process.h"

namespace millrace::core {
namespace {

pid_t forked(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    body();
    _exit(0);
  }
  return child;
}

bool lives(pid_t child) { return waitpid(child, nullptr, WNOHANG) == 0; }

void end(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// What ends it; 0: nothing did within 20 seconds.
int signal_of(pid_t child) {
  for (int i = 0; i < 2000; ++i) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  end(child);
  return 0;
}

void spin() {
  for (volatile bool forever = true; forever;) continue;
}

void block_all_and_sleep() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  while (true) pause();
}

class EndWithProcess : public testing::TestWithParam<void (*)()> {};

TEST_P(EndWithProcess, WhateverTheMainThreadDoes) {
  const pid_t other = forked([] { sleep(60); });
  const pid_t child = forked([&] {
    if (end_with_process(other, 10)) GetParam()();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(lives(child));
  end(other);
  EXPECT_EQ(signal_of(child), SIGKILL);
}

INSTANTIATE_TEST_SUITE_P(Busy, EndWithProcess, testing::Values(spin, block_all_and_sleep));

TEST(EndWithProcess, OneThatHasEndedAlready) {
  const pid_t other = forked([] {});
  ASSERT_EQ(waitpid(other, nullptr, 0), other);
  EXPECT_EQ(signal_of(forked([&] {
              if (end_with_process(other, 10)) spin();
            })),
            SIGKILL);
}

TEST(EndWithProcess, NotWithTheThreadThatForked) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer ends a child that starts threads when its parent had several";
#endif
  pid_t child = -1;
  const pid_t self = getpid();
  std::thread([&] {
    child = forked([&] {
      if (end_with_process(self, 10)) block_all_and_sleep();
    });
  }).join();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_TRUE(lives(child));
  end(child);
}

TEST(EndWithProcess, HasTheGraceToEndByItself) {
  const pid_t other = forked([] {});
  const pid_t child = forked([&] {
    if (end_with_process(other, 60'000)) usleep(100'000);
  });
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  waitpid(other, nullptr, 0);
}

}  // namespace
}  // namespace millrace::core
