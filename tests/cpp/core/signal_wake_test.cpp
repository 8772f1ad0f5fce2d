// wake_on_signal: the byte arrives, the handler before it is called, and it is back afterwards.
#include "core/signal_wake.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "millrace/error.h"

namespace millrace::core {
namespace {

std::atomic<int> other_signals{0};

int bytes_in(int fd) {
  char bytes[64];
  const ssize_t count = ::read(fd, bytes, sizeof bytes);
  return count < 0 ? 0 : static_cast<int>(count);
}

class SignalWake : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::pipe2(ends_, O_NONBLOCK | O_CLOEXEC), 0); }
  void TearDown() override {
    unwake_on_signal(SIGUSR2);
    ::signal(SIGUSR2, SIG_DFL);
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  int ends_[2] = {-1, -1};
};

TEST_F(SignalWake, WakesAndDoesNotEndTheProcess) {
  wake_on_signal(SIGUSR2, ends_[1]);
  ::raise(SIGUSR2);
  EXPECT_EQ(bytes_in(ends_[0]), 1);
  wake_on_signal(SIGUSR2, ends_[1]);  // not twice
  ::raise(SIGUSR2);
  EXPECT_EQ(bytes_in(ends_[0]), 1);
}

TEST_F(SignalWake, CallsTheHandlerBefore) {
  other_signals = 0;
  ::signal(SIGUSR2, [](int) { ++other_signals; });
  wake_on_signal(SIGUSR2, ends_[1]);
  ::raise(SIGUSR2);
  EXPECT_EQ(other_signals, 1);
  EXPECT_EQ(bytes_in(ends_[0]), 1);
  EXPECT_TRUE(unwake_on_signal(SIGUSR2));
  ::raise(SIGUSR2);
  EXPECT_EQ(other_signals, 2);
  EXPECT_EQ(bytes_in(ends_[0]), 0);
}

TEST_F(SignalWake, LeavesWhoeverCameOnTop) {
  wake_on_signal(SIGUSR2, ends_[1]);
  other_signals = 0;
  ::signal(SIGUSR2, [](int) { ++other_signals; });
  EXPECT_FALSE(unwake_on_signal(SIGUSR2));
  ::raise(SIGUSR2);
  EXPECT_EQ(other_signals, 1);
}

TEST_F(SignalWake, RefusesWhatCannotBeCaught) {
  EXPECT_THROW(wake_on_signal(SIGKILL, ends_[1]), Error);
  EXPECT_THROW(wake_on_signal(0, ends_[1]), Error);
  EXPECT_THROW(wake_on_signal(1000, ends_[1]), Error);
}

TEST_F(SignalWake, AFullPipeLosesNothingThatMatters) {
  wake_on_signal(SIGUSR2, ends_[1]);
  char fill[4096] = {};
  while (::write(ends_[1], fill, sizeof fill) > 0) {
  }
  ::raise(SIGUSR2);  // must not block
  EXPECT_GT(bytes_in(ends_[0]), 0);
}

}  // namespace
}  // namespace millrace::core
