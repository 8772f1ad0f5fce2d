// The system has no thread left: at each place where the library starts one, that is an error or does not
// matter, and the threads that there are end.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "collate/gather_engine.h"
#include "device/reference_threads.h"
#include "device_runs.h"
#include "fake_rows.h"
#include "io/read_ahead.h"
#include "millrace/error.h"
#include "sources/image_folder.h"
#include "tuning/drift_examiner.h"

namespace {

std::atomic<int> made{0}, first_refused{0}, last_refused{-1};  // which threads the system does not have

}  // namespace

// In front of the system's, also for libstdc++.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                              void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto systems = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  const int number = ++made;
  if (number >= first_refused && number <= last_refused) return EAGAIN;
  return systems(thread, attributes, body, argument);
}

// The sanitizers'. A loader that has no thread to end it stays in memory, with threads that nobody joins.
extern "C" [[gnu::visibility("default")]] const char* __lsan_default_suppressions() {
  return "leak:rows_of_a_loader_that_ends_itself";
}
extern "C" [[gnu::visibility("default")]] const char* __tsan_default_suppressions() {
  return "thread:rows_of_a_loader_that_ends_itself";
}

namespace millrace::loader {
namespace {

using testing::FakeRows;
using testing::range;

void rows_in_threads() {
  const auto engine = testing::loader(std::make_shared<FakeRows>(), {3, 3, ErrorPolicy::raise, false});
  EXPECT_EQ(testing::epoch(*engine, range(0, 40), 4).size(), 10u);
}

// The last user of the loader is one of its threads, so it needs another.
void rows_of_a_loader_that_ends_itself() {
  struct Shared {
    std::mutex mutex;
    std::unique_ptr<DataLoader> engine;  // guarded by the mutex
    std::atomic<bool> gone{false};
  };
  const auto shared = std::make_shared<Shared>();
  const auto rows = std::make_shared<FakeRows>();
  rows->finish = [shared](const base::SampleKey& key) {
    if (key.index != 5) return;
    const std::lock_guard lock(shared->mutex);
    shared->engine.reset();
    shared->gone = true;
  };
  {
    const std::lock_guard lock(shared->mutex);
    shared->engine = testing::loader(rows, {2, 3, ErrorPolicy::raise, false});
    shared->engine->start_epoch(1, 0);
    shared->engine->submit(range(0, 10));
  }
  while (!shared->gone) std::this_thread::yield();
}

void fields_in_memory() {
  const std::vector<uint8_t> table(4096, 7);
  collate::GatherEngine engine(3, 3, 1);
  for (int i = 0; i < 3; ++i) engine.submit({{0, table.size(), {table.data(), table.data()}}});
  std::vector<core::Lease> out;
  for (int i = 0; i < 3; ++i) {
    while (engine.next(out, 1000) == collate::GatherEngine::Status::pending) continue;
    EXPECT_EQ(out.at(0).size_bytes(), 2 * table.size());
  }
}

class Zeros final : public io::ByteSource {
 public:
  const std::string& name() const override { return name_; }
  int64_t size() const override { return 1 << 20; }
  void read_at(int64_t, std::span<uint8_t> into) const override { std::memset(into.data(), 0, into.size()); }

 private:
  const std::string name_ = "zeros";
};

void reads_ahead() {
  const Zeros source;
  std::vector<uint8_t> memory(1000, 1);
  io::ReadAhead reads;
  reads.finish(reads.add(source, 0, memory));
  EXPECT_EQ(memory.back(), 0);
}

void examines_drift() {
  tuning::DriftExaminer examiner({}, 2, nullptr, {});
  examiner.finish();
}

void lists_folders() {
  const ScratchFolder root;
  for (const char* name : {"a/1.jpg", "b/1.jpg", "c/1.jpg", "d/1.jpg"}) root.write(name);
  EXPECT_EQ(sources::list_image_folder(root.path(), {.extensions = {".jpg"}, .threads = 4}).paths.size(), 4u);
}

void pixels_on_the_cpu() {
  std::atomic<int> done{0};
  device::reference::for_samples(64, 1 << 20, [&](int32_t) { ++done; });
  EXPECT_EQ(done, 64);
}

std::vector<int> blocked_signals() {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  std::vector<int> blocked;
  for (int signal = 1; signal < SIGRTMAX; ++signal)
    if (sigismember(&mask, signal) == 1) blocked.push_back(signal);
  return blocked;
}

class ThreadFailures : public DeviceLoaderTest {
 protected:
  void batches_on_a_device() {
    const DeviceOutcome run = on_the_device(images_, {});
    EXPECT_GT(run.seen.size(), 5u);
  }
  const std::shared_ptr<ImageDataset> images_ = dataset();
};

// The work when the n-th thread that it asks for is refused, and with it none or all that are asked for
// later, until n is more than it needs.
TEST_F(ThreadFailures, EachThreadThatCannotBeHadIsAnErrorOrDoneWithout) {
  struct Case {
    const char* name;
    std::function<void()> work;
    int least_threads;  // so that none is left out
  };
  const std::vector<Case> cases{
      {"rows", rows_in_threads, 3},
      {"ends itself", rows_of_a_loader_that_ends_itself, 3},
      {"memory", fields_in_memory, 3},
      {"read ahead", reads_ahead, 1},
      {"drift", examines_drift, 1},
      {"folders", lists_folders, 3},
      {"pixels", pixels_on_the_cpu, 0},  // as many as there are CPUs
      {"device", [this] { batches_on_a_device(); }, 4},
  };
  std::thread([] {}).join();  // the thread sanitizer has one of its own from now on
  const int before = testing::thread_count();
  const std::vector<int> mask = blocked_signals();
  for (const Case& one : cases)
    for (const bool all_later : {false, true}) {
      int refused = 0;
      for (int n = 1;; ++n) {
        SCOPED_TRACE(one.name + (" without thread " + std::to_string(n)));
        made = 0, last_refused = all_later ? 1 << 30 : n, first_refused = n;
        try {
          one.work();
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::system) << error.what();
          EXPECT_EQ(error.code(), EAGAIN);
        }
        first_refused = 0, last_refused = -1;
        EXPECT_EQ(blocked_signals(), mask);
        ASSERT_TRUE(testing::threads_fall_to(before));
        if (made < n) break;
        ++refused;
      }
      EXPECT_GE(refused, one.least_threads) << one.name;
    }
}

}  // namespace
}  // namespace millrace::loader
