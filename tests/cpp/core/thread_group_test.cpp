// ThreadGroup: named, deaf to Ctrl-C, joined at the end.
#include "core/thread_group.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <string>

namespace millrace::core {
namespace {

TEST(ThreadGroup, TheDestructorJoins) {
  std::atomic<int> finished{0};
  {
    ThreadGroup group;
    for (int i = 0; i < 5; ++i)
      group.start("test", [&finished] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        ++finished;
      });
    EXPECT_EQ(group.size(), 5u);
  }
  EXPECT_EQ(finished, 5);
}

TEST(ThreadGroup, ThreadsTakeNoInterruptsAndTheCallerKeepsItsMask) {
  sigset_t before, after, inside;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  {
    ThreadGroup group;
    group.start("test", [&inside] { pthread_sigmask(SIG_SETMASK, nullptr, &inside); });
  }
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD, SIGALRM}) {
    EXPECT_TRUE(sigismember(&inside, signal)) << signal;
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << signal;
  }
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGPROF})
    EXPECT_FALSE(sigismember(&inside, signal)) << signal;
}

TEST(ThreadGroup, AnyThreadMayJoinAndAsk) {
  for (int round = 0; round < 50; ++round) {
    ThreadGroup group;
    std::atomic<int> inside{0};
    for (int i = 0; i < 3; ++i) group.start("test", [&] { inside += group.holds_current(); });
    ThreadGroup joiners;
    for (int i = 0; i < 3; ++i)
      joiners.start("join", [&] {
        EXPECT_FALSE(group.holds_current());
        group.join();
        EXPECT_EQ(inside, 3);
      });
  }
}

TEST(ThreadGroup, NamesShowInTheSystem) {
  std::atomic<bool> named{false};
  ThreadGroup group;
  group.start("millrace-a-very-long-name", [&named] {
    char name[16] = {};
    for (int i = 0; i < 1000 && std::string(name) != "millrace-a-very";
         ++i) {  // the name is set after the start
      pthread_getname_np(pthread_self(), name, sizeof name);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    named = std::string(name) == "millrace-a-very";
  });
  group.join();
  EXPECT_TRUE(named);
}

}  // namespace
}  // namespace millrace::core
