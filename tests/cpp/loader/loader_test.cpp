// The loader's straight road: order, bytes, slots, waiting, closing; for no, one and several threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "fake_rows.h"

namespace millrace::loader::testing {
namespace {

using Status = DataLoader::Status;
using std::chrono::milliseconds;

constexpr transforms::OutputShape kLarge{3, 64,
                                         352};  // 67,584 bytes a row: batches travel in slots, not as copies

class Threads : public ::testing::TestWithParam<int> {
 protected:
  LoaderOptions options(int slots = 3) const { return {GetParam(), slots, ErrorPolicy::raise, false}; }
};
INSTANTIATE_TEST_SUITE_P(Loader, Threads, ::testing::Values(0, 1, 2, 5));

// A door that rows wait behind until the test opens it.
class Door {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    --waiting_;
  }
  void wait_for(int waiting) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return waiting_ >= waiting; }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

TEST_P(Threads, BatchesComeInOrderWithTheBytesOfTheirKeys) {
  for (const transforms::OutputShape& shape : {transforms::OutputShape{3, 4, 5}, kLarge}) {
    auto rows = std::make_shared<FakeRows>();
    rows->shape = shape;
    const auto engine = loader(rows, options());
    for (uint64_t number = 0; number < 3; ++number) {
      std::vector<int64_t> order = range(0, 37);
      std::reverse(order.begin(), order.end());
      order.insert(order.end(), {5, 5, -1});
      engine->start_epoch(99, number);
      for (auto from = order.begin(); from != order.end(); from += 8) engine->submit({from, from + 8});
      engine->end_epoch();
      Batch batch;
      for (int64_t id = 0; id < 5; ++id) {
        ASSERT_EQ(next(*engine, batch), Status::ready);
        EXPECT_EQ(batch.id, id);
        EXPECT_EQ(batch.rows, 8);
        EXPECT_EQ(batch.shape, shape);
        EXPECT_EQ(batch.type, base::DType::u8);
        EXPECT_EQ(batch.images.size_bytes(),
                  static_cast<size_t>(8 * shape.channels * shape.height * shape.width));
        for (int64_t row = 0; row < 8; ++row) {
          const auto position = static_cast<size_t>(id * 8 + row);
          const int64_t index = order[position] < 0 ? 99 : order[position];
          const uint32_t occurrence = position == 37 ? 1 : position == 38 ? 2 : 0;
          EXPECT_TRUE(holds(batch, row, {99, number, index, occurrence})) << "batch " << id << " row " << row;
        }
      }
      EXPECT_EQ(next(*engine, batch), Status::end);
      EXPECT_EQ(next(*engine, batch), Status::end);
    }
    const LoaderStats stats = engine->stats();
    EXPECT_EQ(stats.samples, 120);
    EXPECT_EQ(stats.batches, 15);
    EXPECT_EQ(stats.bytes, 120 * (shape.channels * shape.height * shape.width + 8));
    EXPECT_EQ(stats.slots, 3);
    EXPECT_EQ(stats.overflow_slots, 0);
    EXPECT_TRUE(stats.errors.empty());
    EXPECT_GT(stats.wait_seconds, 0);
  }
}

TEST_P(Threads, WhatWasSkippedCountsForOccurrences) {
  auto rows = std::make_shared<FakeRows>();
  const auto engine = loader(rows, options());
  for (uint64_t number = 0; number < 2; ++number) {  // skipped indices are forgotten with their epoch
    engine->start_epoch(99, number);
    if (number == 0) engine->skip(std::vector<int64_t>{5, 5, -1});
    engine->submit({5, 99, 4});
    EXPECT_THROW(engine->skip(std::vector<int64_t>{4}), Error);
    engine->end_epoch();
    Batch batch;
    ASSERT_EQ(next(*engine, batch), Status::ready);
    EXPECT_TRUE(holds(batch, 0, {99, number, 5, number == 0 ? 2u : 0u}));
    EXPECT_TRUE(holds(batch, 1, {99, number, 99, number == 0 ? 1u : 0u}));
    EXPECT_TRUE(holds(batch, 2, {99, number, 4, 0}));
  }
  engine->close();
  EXPECT_THROW(engine->skip(std::vector<int64_t>{4}), Error);
}

TEST_P(Threads, KeptBatchesStayUnchangedAndAreCounted) {
  auto rows = std::make_shared<FakeRows>();
  rows->size = 400;
  rows->shape = kLarge;
  const auto engine = loader(rows, options(3));
  const auto kept = epoch(*engine, range(0, 400), 4);
  ASSERT_EQ(kept.size(), 100u);
  EXPECT_EQ(engine->stats().overflow_slots, 97);
  epoch(*engine, range(0, 40), 4, false, 2);  // writes over every slot that is free
  for (size_t b = 0; b < kept.size(); ++b)
    for (int64_t row = 0; row < 4; ++row)
      ASSERT_TRUE(holds(kept[b], row, {1, 0, static_cast<int64_t>(b) * 4 + row, 0})) << b;
}

TEST_P(Threads, SmallBatchesAreCopiesSoThatKeepingThemCostsNoSlot) {
  auto rows = std::make_shared<FakeRows>();
  rows->size = 2000;
  const auto engine = loader(rows, options(1));
  const auto kept = epoch(*engine, range(0, 2000), 2);
  ASSERT_EQ(kept.size(), 1000u);
  EXPECT_EQ(engine->stats().overflow_slots, 0);
  for (size_t b = 0; b < kept.size(); ++b)
    ASSERT_TRUE(holds(kept[b], 1, {1, 0, static_cast<int64_t>(b) * 2 + 1, 0}));
}

TEST_P(Threads, HoldingTheLastBatchNeedsNoOverflow) {
  auto rows = std::make_shared<FakeRows>();
  rows->shape = kLarge;
  const auto engine = loader(rows, options(2));
  engine->start_epoch(1, 0);
  for (int64_t i = 0; i < 50; ++i) engine->submit({i, i + 1});
  engine->end_epoch();
  Batch held, batch;
  while (next(*engine, batch) == Status::ready) held = std::move(batch);  // as `for x in loader:` does
  EXPECT_EQ(engine->stats().overflow_slots, 0);
}

TEST_P(Threads, NextWithoutAnythingSubmittedEnds) {
  const auto engine = loader(std::make_shared<FakeRows>(), options());
  Batch batch;
  EXPECT_EQ(engine->next(batch, 1000), Status::end);
  engine->start_epoch(1, 0);
  EXPECT_EQ(engine->next(batch, 1000), Status::end);
  engine->submit({1});
  EXPECT_EQ(next(*engine, batch), Status::ready);
  EXPECT_EQ(engine->next(batch, 1000), Status::end);
  engine->submit({2});
  EXPECT_EQ(next(*engine, batch), Status::ready);
  EXPECT_EQ(batch.id, 1);
}

TEST_P(Threads, SlowRowsMakePendingAfterAboutTheTimeout) {
  auto rows = std::make_shared<FakeRows>();
  rows->prepare = [](const base::SampleKey&) { std::this_thread::sleep_for(milliseconds(20)); };
  const auto engine = loader(rows, options());
  engine->start_epoch(1, 0);
  engine->submit(range(0, 20));
  engine->end_epoch();
  Batch batch;
  int pending = 0;
  for (;;) {
    const int64_t start = base::now_ns();
    const Status status = engine->next(batch, 5);
    EXPECT_LT(base::now_ns() - start, 2'000'000'000);
    if (status == Status::ready) break;
    ASSERT_EQ(status, Status::pending);
    ++pending;
  }
  EXPECT_GE(pending, 3);
  for (int64_t row = 0; row < 20; ++row) EXPECT_TRUE(holds(batch, row, {1, 0, row, 0}));
  EXPECT_EQ(engine->next(batch, 5), Status::end);
}

TEST(Loader, InlineWorksOnlyInsideNextAndOnlyForTheOldestBatch) {
  auto rows = std::make_shared<FakeRows>();
  std::atomic<int> made{0};
  const auto self = std::this_thread::get_id();
  rows->prepare = [&made, self](const base::SampleKey&) {
    EXPECT_EQ(std::this_thread::get_id(), self);
    ++made;
  };
  const int before = thread_count();
  const auto engine = loader(rows, {0, 3, ErrorPolicy::raise, false});
  EXPECT_EQ(thread_count(), before);
  engine->start_epoch(1, 0);
  engine->submit(range(0, 4));
  engine->submit(range(4, 8));
  engine->end_epoch();
  std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(made, 0);
  Batch batch;
  EXPECT_EQ(next(*engine, batch), Status::ready);
  EXPECT_EQ(made, 4);
}

TEST(Loader, ThreadsShareABatchSoThatTheFirstIsReadyEarly) {
  auto rows = std::make_shared<FakeRows>();
  Door door;
  rows->prepare = [&door](const base::SampleKey& key) {
    if (key.index < 4) door.pass();
  };
  const auto engine = loader(rows, {4, 2, ErrorPolicy::raise, false});
  engine->start_epoch(1, 0);
  engine->submit(range(0, 8));
  door.wait_for(4);  // four threads are inside the same batch
  Batch batch;
  EXPECT_EQ(engine->next(batch, 1), Status::pending);
  door.open();
  EXPECT_EQ(next(*engine, batch), Status::ready);
}

TEST(Loader, NoMoreBatchesAreMadeAheadThanThereAreSlots) {
  auto rows = std::make_shared<FakeRows>();
  rows->size = 1000;
  rows->shape = kLarge;
  std::atomic<int64_t> highest{-1};
  rows->prepare = [&highest](const base::SampleKey& key) {
    for (int64_t seen = highest; seen < key.index && !highest.compare_exchange_weak(seen, key.index);) {
    }
  };
  const auto engine = loader(rows, {2, 3, ErrorPolicy::raise, false});
  engine->start_epoch(1, 0);
  for (int64_t i = 0; i < 100; ++i) engine->submit(range(i * 2, i * 2 + 2));
  engine->end_epoch();
  Batch held, batch;
  for (int64_t taken = 0; taken < 20; ++taken) {
    std::this_thread::sleep_for(milliseconds(3));
    // `taken` batches were handed out, of which the last is held; two more may exist (three before the
    // first).
    EXPECT_LE(highest, (taken == 0 ? 3 : taken + 2) * 2 - 1) << taken;
    ASSERT_EQ(next(*engine, batch), Status::ready);
    held = std::move(batch);
  }
}

TEST(Loader, AReturnedSlotWakesTheWorkersWithoutNext) {
  auto rows = std::make_shared<FakeRows>();
  rows->shape = kLarge;
  std::atomic<int> made{0};
  rows->finish = [&made](const base::SampleKey&) { ++made; };
  const auto engine = loader(rows, {2, 1, ErrorPolicy::raise, false});
  engine->start_epoch(1, 0);
  engine->submit({0});
  engine->submit({1});
  Batch batch;
  ASSERT_EQ(next(*engine, batch), Status::ready);
  std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(made, 1);
  std::thread([lease = std::move(batch.images)]() mutable { lease = {}; }).join();
  for (int i = 0; i < 5000 && made < 2; ++i) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(made, 2);
  EXPECT_EQ(engine->stats().overflow_slots, 0);
}

TEST_P(Threads, ANewEpochThrowsAwayWhatWasOutstanding) {
  auto rows = std::make_shared<FakeRows>();
  rows->shape = kLarge;
  const auto engine = loader(rows, options());
  for (uint64_t number = 0; number < 20; ++number) {
    engine->start_epoch(7, number);
    for (int64_t i = 0; i < 10; ++i) engine->submit(range(i * 4, i * 4 + 4));
    Batch batch;
    for (uint64_t i = 0; i < number % 4; ++i) {
      ASSERT_EQ(next(*engine, batch), Status::ready);
      EXPECT_EQ(batch.id, static_cast<int64_t>(i));
      for (int64_t row = 0; row < 4; ++row)
        ASSERT_TRUE(holds(batch, row, {7, number, static_cast<int64_t>(i) * 4 + row, 0}));
    }
  }
  // With more threads than slots, thrown-away batches may still hold all of them when the new epoch asks for
  // its first.
  if (GetParam() < 3) {
    EXPECT_EQ(engine->stats().overflow_slots, 0);
  }
}

TEST_P(Threads, CloseInsideASlowRowWaitsForThatRowOnly) {
  auto rows = std::make_shared<FakeRows>();
  std::atomic<int> made{0};
  rows->prepare = [&made](const base::SampleKey&) {
    std::this_thread::sleep_for(milliseconds(30));
    ++made;
  };
  const auto engine = loader(rows, options());
  engine->start_epoch(1, 0);
  engine->submit(range(0, 100));
  Batch batch;
  EXPECT_EQ(engine->next(batch, 1), Status::pending);
  engine->close();
  EXPECT_LE(made, 2 * std::max(1, GetParam()));
  EXPECT_EQ(engine->next(batch, 1000), Status::end);
  engine->close();
  EXPECT_EQ(engine->stats().batches, 0);
  EXPECT_THROW(engine->start_epoch(1, 1), Error);
  EXPECT_THROW(engine->submit({1}), Error);
}

TEST_P(Threads, BatchesOutliveTheirLoader) {
  auto rows = std::make_shared<FakeRows>();
  rows->shape = kLarge;
  std::vector<Batch> kept;
  {
    const auto engine = loader(rows, options());
    kept = epoch(*engine, range(0, 40), 4);
  }
  for (size_t b = 0; b < kept.size(); ++b)
    EXPECT_TRUE(holds(kept[b], 3, {1, 0, static_cast<int64_t>(b) * 4 + 3, 0}));
  std::thread([&kept] { kept.clear(); }).join();
}

TEST(Loader, RefusesNonsenseWithASentence) {
  auto rows = std::make_shared<FakeRows>();
  EXPECT_THROW(loader(rows, {-1, 3, ErrorPolicy::raise, false}), Error);
  EXPECT_THROW(loader(rows, {1, 0, ErrorPolicy::raise, false}), Error);
  const auto engine = loader(rows, {1, 3, ErrorPolicy::raise, false});
  EXPECT_THROW(engine->submit({1}), Error);
  engine->start_epoch(1, 0);
  EXPECT_THROW(engine->submit({}), Error);
  engine->end_epoch();
  EXPECT_THROW(engine->submit({1}), Error);
}

TEST(Loader, ABatchLargerThanMemoryIsAnErrorAtSubmit) {
  auto rows = std::make_shared<FakeRows>();
  rows->shape = {INT32_MAX, INT32_MAX, INT32_MAX};
  const auto engine = loader(rows, {1, 3, ErrorPolicy::raise, false});
  engine->start_epoch(1, 0);
  EXPECT_THROW(engine->submit({1}), Error);
}

TEST_P(Threads, ABatchThatFindsNoMemoryIsItsOwnError) {
  auto rows = std::make_shared<FakeRows>();
  rows->shape = {1 << 12, 1 << 20, 1 << 20};  // 4 PiB
  const auto engine = loader(rows, options());
  engine->start_epoch(1, 0);
  engine->submit({1});
  engine->submit({2});
  engine->end_epoch();
  Batch batch;
  for (int i = 0; i < 2; ++i) {
    try {
      next(*engine, batch);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ENOMEM);
    }
  }
  EXPECT_EQ(next(*engine, batch), Status::end);
}

TEST_P(Threads, EachThreadsTimeIsBookedToStages) {
  auto rows = std::make_shared<FakeRows>();
  rows->finish = [](const base::SampleKey&) {
    const trace::StageScope scope(trace::Stage::decode);
    std::this_thread::sleep_for(milliseconds(1));
  };
  const auto engine = loader(rows, options());
  engine->start_epoch(1, 0);
  for (int64_t i = 0; i < 40; i += 8) engine->submit(range(i, i + 8));
  engine->end_epoch();
  for (Batch batch; next(*engine, batch) == Status::ready;);
  std::this_thread::sleep_for(milliseconds(10));  // they idle now
  const auto check = [&](bool ended) {
    const auto clocks = engine->clocks();
    ASSERT_EQ(clocks.size(), static_cast<size_t>(GetParam()));
    int64_t decoding = 0;
    for (const trace::StageReading& clock : clocks) {
      if (clock.born_ns == 0) continue;  // it came too late
      int64_t sum = 0;
      for (const int64_t ns : clock.wall_ns) sum += ns;
      EXPECT_EQ(sum, clock.until_ns - clock.born_ns);
      EXPECT_EQ(clock.stage, ended ? trace::Stage::ended : trace::Stage::idle);
      EXPECT_GE(clock.wall_ns[static_cast<size_t>(trace::Stage::idle)], 9'000'000);
      decoding += clock.wall_ns[static_cast<size_t>(trace::Stage::decode)];
    }
    EXPECT_GE(decoding, GetParam() > 0 ? 40'000'000 : 0);
  };
  check(false);
  engine->close();
  check(true);
}

}  // namespace
}  // namespace millrace::loader::testing
