// Everything at once, many times: early ends, leases dropped on other threads, nothing left behind.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "core/batch_ring.h"
#include "fake_rows.h"

namespace millrace::loader::testing {
namespace {

using Status = DataLoader::Status;

transforms::OutputShape any_shape(const base::SampleKey& key) {
  const auto random = static_cast<int32_t>(FakeRows::pattern(key) % 1000);
  return {1 + random % 3, 1 + random % 64, random % 16 ? 40 : 4000};
}

// Drops what it is given on a thread of its own, a little later.
class Dropper {
 public:
  Dropper() : thread_([this] { run(); }) {}
  ~Dropper() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  void take(Batch batch) {
    const std::lock_guard lock(mutex_);
    batches_.push_back(std::move(batch));
    changed_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stop_ || !batches_.empty()) {
      changed_.wait(lock, [this] { return stop_ || !batches_.empty(); });
      std::deque<Batch> mine;
      mine.swap(batches_);
      lock.unlock();
      mine.clear();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> batches_;
  bool stop_ = false;
  std::thread thread_;
};

TEST(Stress, RandomLoadersRandomEnds) {
  std::mt19937 random(11);
  Dropper dropper;
  for (int round = 0; round < 80; ++round) {
    auto rows = std::make_shared<FakeRows>();
    rows->size = 200;
    rows->shape = random() % 3 ? transforms::OutputShape{3, 64, 352} : transforms::OutputShape{3, 8, 8};
    rows->shape_is_fixed = random() % 2;
    rows->ragged = random() % 2;
    if (rows->ragged) rows->shape_of = any_shape;
    const auto seed = random();
    rows->finish = [seed](const base::SampleKey& key) {
      const bool slow = (static_cast<uint64_t>(key.index) * 2654435761u ^ seed) % 16 == 0;
      if (slow) std::this_thread::sleep_for(std::chrono::microseconds(200));
    };
    const auto policy = static_cast<ErrorPolicy>(random() % 3);
    if (policy != ErrorPolicy::raise)
      for (int i = 0; i < 20; ++i) rows->unreadable_at_finish.insert(static_cast<int64_t>(random() % 200));
    auto engine = loader(rows, {static_cast<int>(random() % 5), 1 + static_cast<int>(random() % 4), policy,
                                random() % 2 == 0});
    std::deque<Batch> kept;
    for (uint64_t number = 0; number < 3; ++number) {
      engine->start_epoch(5, number);
      const int64_t batch_size = 1 + static_cast<int64_t>(random() % 7);
      for (int64_t i = 0; i < 200; i += batch_size)
        engine->submit(range(i, std::min<int64_t>(200, i + batch_size)));
      engine->end_epoch();
      const auto stop_after = random() % 80;
      for (uint32_t taken = 0; taken < stop_after; ++taken) {
        Batch batch;
        if (next(*engine, batch) != Status::ready) break;
        ASSERT_EQ(batch.id, static_cast<int64_t>(taken));
        if (policy == ErrorPolicy::raise) {
          for (int64_t row = 0; row < batch.rows; ++row)
            ASSERT_TRUE(holds(batch, row, {5, number, taken * batch_size + row, 0}));
        }
        switch (random() % 3) {
          case 0: kept.push_back(std::move(batch)); break;
          case 1: dropper.take(std::move(batch)); break;
          default: break;
        }
        if (kept.size() > 6) {
          dropper.take(std::move(kept.front()));
          kept.pop_front();
        }
      }
    }
    if (random() % 2) engine->close();
    if (random() % 2) engine.reset();
    for (Batch& batch : kept) dropper.take(std::move(batch));
  }
}

TEST(Stress, StatsMayBeReadAllTheTime) {
  auto rows = std::make_shared<FakeRows>();
  rows->unreadable_at_finish = {3, 50, 77};
  const auto engine = loader(rows, {2, 3, ErrorPolicy::replace, false});
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    int64_t samples = 0;
    while (!stop) {
      const LoaderStats stats = engine->stats();
      ASSERT_GE(stats.samples, samples);
      samples = stats.samples;
    }
  });
  for (int i = 0; i < 20; ++i) epoch(*engine, range(0, 100), 4);
  stop = true;
  reader.join();
  EXPECT_EQ(engine->stats().samples, 2000);
  EXPECT_EQ(engine->stats().errors.size(), 60u);
}

TEST(Stress, AnyThreadMayCloseALoaderAtAnyMoment) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    auto rows = std::make_shared<FakeRows>();
    rows->size = 40;
    rows->shape_is_fixed = random() % 2;
    rows->ragged = random() % 2;
    if (rows->ragged) rows->shape_of = any_shape;
    rows->finish = [](const base::SampleKey& key) {
      if (key.index % 16 == 3) std::this_thread::sleep_for(std::chrono::microseconds(200));
    };
    const auto policy = static_cast<ErrorPolicy>(random() % 3);
    if (policy != ErrorPolicy::raise) rows->unreadable_at_finish = {4, 9, 10, 23};
    const auto engine = loader(rows, {static_cast<int>(random() % 4), 1 + static_cast<int>(random() % 3),
                                      policy, random() % 2 == 0});
    std::atomic<int> taken{0};
    const auto goal = static_cast<int>(random() % 8);
    std::vector<std::thread> closers;
    for (int i = 0; i < 2; ++i)
      closers.emplace_back([&] {
        while (taken < goal) std::this_thread::yield();
        engine->close();
      });
    try {
      for (uint64_t number = 0;; ++number) {
        engine->start_epoch(5, number);
        for (int64_t i = 0; i < 40; i += 5) engine->submit(range(i, i + 5));
        engine->end_epoch();
        Batch batch;
        for (int64_t id = 0; next(*engine, batch) == Status::ready; ++id, ++taken) {
          ASSERT_EQ(batch.id, id);
          if (policy != ErrorPolicy::raise) continue;
          for (int64_t row = 0; row < batch.rows; ++row)
            ASSERT_TRUE(holds(batch, row, {5, number, id * 5 + row, 0}));
        }
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unavailable) << error.what();
    }
    for (std::thread& closer : closers) closer.join();
    Batch batch;
    EXPECT_EQ(engine->next(batch, 0), Status::end);
  }
}

TEST(Stress, CloseInsideACallOfTheConsumersOwn) {
  auto rows = std::make_shared<FakeRows>();
  std::unique_ptr<DataLoader> engine;
  rows->finish = [&](const base::SampleKey& key) {
    if (key.index == 5) engine->close();
  };
  engine = loader(rows, {0, 3, ErrorPolicy::raise, false});
  engine->start_epoch(1, 0);
  engine->submit(range(0, 10));
  Batch batch;
  EXPECT_THROW(next(*engine, batch), Error);
  rows->finish = {};
}

TEST(Stress, ALoaderMayEndOnItsOwnThread) {
  std::mutex mutex;
  std::unique_ptr<DataLoader> engine;  // guarded by the mutex
  for (int i = 0; i < 50; ++i) {
    auto rows = std::make_shared<FakeRows>();
    rows->finish = [&, i](const base::SampleKey& key) {
      if (key.index != 5) return;
      const std::lock_guard lock(mutex);
      if (i % 2) engine->close();
      engine.reset();
    };
    {
      const std::lock_guard lock(mutex);
      engine = loader(rows, {2, 3, ErrorPolicy::raise, false});
      engine->start_epoch(1, 0);
      engine->submit(range(0, 10));
    }
    const std::weak_ptr<FakeRows> watch = std::exchange(rows, nullptr);
    while (!watch.expired()) std::this_thread::yield();
    const std::lock_guard lock(mutex);
    ASSERT_EQ(engine, nullptr);
  }
}

// The address sanitizer keeps freed memory for a while, and finds leaks in its own way.
#if defined(__SANITIZE_ADDRESS__)
constexpr int64_t kAllowedGrowth = int64_t{1} << 30;
#else
constexpr int64_t kAllowedGrowth = 16 << 20;  // one leaked batch per loader would be 270 MB
#endif

TEST(Stress, AThousandLoadersDroppedInMidEpochLeaveNothing) {
  auto rows = std::make_shared<FakeRows>();
  rows->shape = {3, 64, 352};
  const auto drop_one = [&rows](int i) {
    const auto engine = loader(rows, {2, 3, ErrorPolicy::raise, false});
    engine->start_epoch(1, 0);
    for (int64_t b = 0; b < 10; ++b) engine->submit(range(b * 4, b * 4 + 4));
    Batch batch;
    for (int taken = 0; taken < i % 3; ++taken) ASSERT_EQ(next(*engine, batch), Status::ready);
  };
  for (int i = 0; i < 50; ++i) drop_one(i);
  const int threads = thread_count();
  const int64_t before = resident_bytes();
  for (int i = 0; i < 1000; ++i) drop_one(i);
  EXPECT_TRUE(threads_fall_to(threads)) << thread_count();
  EXPECT_LT(resident_bytes() - before, kAllowedGrowth);
}

}  // namespace
}  // namespace millrace::loader::testing
