// A file that is cut short under a copy: the body is left, the process goes on, and faults that are nobody's
// end as they would have.
#include "core/bus_guard.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

namespace millrace::core {
namespace {

// A mapped file without a name.
class Mapping {
 public:
  explicit Mapping(size_t pages) : size_(pages * kPage) {
    char name[] = "/tmp/bus_guard_XXXXXX";
    fd_ = mkstemp(name);
    unlink(name);
    EXPECT_EQ(ftruncate(fd_, static_cast<off_t>(size_)), 0);
    data_ = static_cast<uint8_t*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
  }
  ~Mapping() {
    munmap(data_, size_);
    close(fd_);
  }
  void cut(size_t pages) const { ASSERT_EQ(ftruncate(fd_, static_cast<off_t>(pages * kPage)), 0); }
  const volatile uint8_t* page(size_t number) const { return data_ + number * kPage; }
  static constexpr size_t kPage = 4096;

 private:
  size_t size_;
  int fd_;
  uint8_t* data_;
};

TEST(BusGuard, SaysWhereAFileEnded) {
  const Mapping file(4);
  const void* at = nullptr;
  int read = 0;
  EXPECT_TRUE(guarded([&] { read += *file.page(3) + 1; }, &at));
  file.cut(2);
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(guarded([&] { read += *file.page(1) + 1; }, &at));
    EXPECT_FALSE(guarded([&] { read += *file.page(3) + 1; }, &at));
    EXPECT_EQ(at, const_cast<const uint8_t*>(file.page(3)));
  }
  EXPECT_EQ(read, 4);
}

TEST(BusGuard, ThreadsFaultAtTheSameTime) {
  const Mapping file(4);
  file.cut(1);
  std::vector<std::thread> threads;
  std::atomic<int> caught{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        const void* at = nullptr;
        volatile uint8_t seen = 0;
        if (!guarded([&] { seen = *file.page(static_cast<size_t>(i) % 4); }, &at)) ++caught;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(caught, 4 * 225);
}

// Another handler came; the threads that find it put it behind ours, several at once. What they keep of it is
// never freed, so the leak sanitizer must be able to reach it.
TEST(BusGuard, ThreadsMeetANewHandlerAtTheSameTime) {
  const Mapping file(2);
  file.cut(1);
  for (int round = 0; round < 100; ++round) {
    signal(SIGBUS, SIG_IGN);
    std::atomic<int> ready{0}, caught{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (++ready; ready < 4;) std::this_thread::yield();
        const void* at = nullptr;
        volatile uint8_t seen = 0;
        if (!guarded([&] { seen = *file.page(1); }, &at)) ++caught;
      });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(caught, 4);
  }
  signal(SIGBUS, SIG_DFL);
}

// Runs in a child, whose end is the answer.
template <class Body>
int end_of(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

volatile sig_atomic_t others = 0;

TEST(BusGuard, AFaultOutsideEndsTheProcessAsItWould) {
  const Mapping file(2);
  file.cut(1);
  const int status = end_of([&] {
    signal(SIGBUS, SIG_DFL);  // a sanitizer's handler would exit instead
    const void* at = nullptr;
    if (guarded([&] { static_cast<void>(*file.page(1)); }, &at)) _exit(3);
    static_cast<void>(*file.page(1));
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) << status;
}

TEST(BusGuard, ASentSignalGoesToWhoHadIt) {
  const int status = end_of([] {
    signal(SIGBUS, [](int) { others = others + 1; });
    const void* at = nullptr;
    guarded([] {}, &at);
    raise(SIGBUS);
    _exit(others == 1 ? 7 : 8);
  });
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(BusGuard, WhoComesLaterIsPutBehind) {
  const Mapping file(2);
  file.cut(1);
  const int status = end_of([&] {
    const void* at = nullptr;
    guarded([] {}, &at);
    signal(SIGBUS, [](int) { others = others + 1; });  // as torch does in workers
    const bool caught = !guarded([&] { static_cast<void>(*file.page(1)); }, &at);
    raise(SIGBUS);
    _exit(caught && others == 1 ? 7 : 8);
  });
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

struct sigaction ours_then;

TEST(BusGuard, WhoCallsUsInTurnIsNoCircle) {
  const Mapping file(2);
  file.cut(1);
  const int status = end_of([&] {
    signal(SIGBUS, SIG_DFL);
    const void* at = nullptr;
    guarded([] {}, &at);
    struct sigaction theirs = {};
    theirs.sa_flags = SA_SIGINFO;
    theirs.sa_sigaction = [](int number, siginfo_t* info, void* context) {
      ours_then.sa_sigaction(number, info, context);
    };
    sigaction(SIGBUS, &theirs, &ours_then);
    guarded([] {}, &at);
    static_cast<void>(*file.page(1));
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) << status;
}

}  // namespace
}  // namespace millrace::core
