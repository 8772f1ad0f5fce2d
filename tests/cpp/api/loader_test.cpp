// The loader: epochs, options, threads that meet in it, and its end.
#include "millrace/loader.h"

#include <gtest/gtest.h>

#include <chrono>
#include <climits>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "errors_of.h"
#include "millrace/arrays.h"
#include "own_samples.h"

namespace millrace {
namespace {

using Lists = std::vector<std::vector<int64_t>>;

Lists epoch_of(Loader& loader) {
  Lists lists;
  for (const Batch& batch : loader) lists.push_back(batch.indices());
  return lists;
}

class Loaders : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, Loaders, ::testing::Values(0, 1, 4));

TEST_P(Loaders, EpochsFollowOneAnother) {
  Loader loader(make_dataset(Numbered{.samples = 10}),
                {.batch_size = 4, .shuffle = true, .threads = GetParam()});
  EXPECT_EQ(loader.size(), 3);
  EXPECT_EQ(loader.epoch(), 0);
  Batch batch;
  Lists first, second;
  while (loader.next(batch)) {
    EXPECT_EQ(loader.epoch(), 0);
    EXPECT_EQ(batch.number(), static_cast<int64_t>(first.size()));
    first.push_back(batch.indices());
  }
  EXPECT_EQ(loader.epoch(), 1);
  while (loader.next(batch)) second.push_back(batch.indices());
  EXPECT_EQ(loader.epoch(), 2);
  EXPECT_EQ(first.size(), 3u);
  EXPECT_EQ(second.size(), 3u);
  EXPECT_NE(first, second);

  Loader again(make_dataset(Numbered{.samples = 10}),
               {.batch_size = 4, .shuffle = true, .threads = 3 - GetParam() / 2});
  EXPECT_EQ(epoch_of(again), first);
  EXPECT_EQ(epoch_of(again), second);
}

TEST_P(Loaders, AnEpochThatIsBrokenOffIsLeftByBegin) {
  Loader loader(make_dataset(Numbered{.samples = 40}), {.batch_size = 4, .threads = GetParam()});
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (const Batch& batch : loader) {
      EXPECT_EQ(loader.epoch(), epoch);
      if (batch.number() == 2) break;
    }
  }
  Batch batch;
  ASSERT_TRUE(loader.next(batch));  // goes on in the epoch
  EXPECT_EQ(batch.number(), 3);
  EXPECT_EQ(loader.epoch(), 4);
}

TEST_P(Loaders, DropLastAndSamplersSayTheSize) {
  const Dataset data = make_dataset(Numbered{.samples = 10});
  EXPECT_EQ(Loader(data, {.batch_size = 4, .drop_last = true, .threads = GetParam()}).size(), 2);
  EXPECT_EQ(Loader(data, {.batch_size = 2, .sampler = distributed_sampler(10, {0, 3})}).size(), 2);
  EXPECT_EQ(Loader(data, {.batch_sampler = batches_of(sequential_sampler(7), 3)}).size(), 3);
  Loader loader(data, {.threads = GetParam(), .batch_sampler = batches_of(sequential_sampler(7), 3, true)});
  EXPECT_EQ(epoch_of(loader), (Lists{{0, 1, 2}, {3, 4, 5}}));
}

TEST_P(Loaders, OptionsThatContradictEachOtherAreRefused) {
  const Dataset data = make_dataset(Numbered{});
  const auto kind = [&](LoaderOptions options, const char* says = "") {
    return kind_of([&] { Loader(data, options); }, says);
  };
  EXPECT_EQ(kind({.batch_size = INT64_MAX}, "batch_size should be 1 to"), ErrorKind::invalid_argument);
  EXPECT_EQ(kind({.threads = INT_MAX}, "threads should be 0 to 4096"), ErrorKind::invalid_argument);
  EXPECT_EQ(kind({.threads = 4, .prefetch = INT_MAX}, "prefetch should be 1 to 262144"),
            ErrorKind::invalid_argument);
  EXPECT_EQ(kind({.batch_size = 0}), ErrorKind::invalid_argument);
  EXPECT_EQ(kind({.threads = -1}), ErrorKind::invalid_argument);
  EXPECT_EQ(kind({.prefetch = 0}), ErrorKind::invalid_argument);
  EXPECT_EQ(kind({.shuffle = true, .sampler = sequential_sampler(10)}), ErrorKind::invalid_argument);
  const BatchSampler batches = batches_of(sequential_sampler(10), 2);
  EXPECT_EQ(kind({.batch_size = 2, .batch_sampler = batches}), ErrorKind::invalid_argument);
  EXPECT_EQ(kind({.shuffle = true, .batch_sampler = batches}), ErrorKind::invalid_argument);
  EXPECT_EQ(kind({.drop_last = true, .batch_sampler = batches}), ErrorKind::invalid_argument);
  EXPECT_EQ(kind({.sampler = sequential_sampler(10), .batch_sampler = batches}), ErrorKind::invalid_argument);
  EXPECT_EQ(kind({.sampler = Sampler{}}), ErrorKind::invalid_argument);
  EXPECT_EQ(kind({.batch_sampler = BatchSampler{}}), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([] { Loader(Dataset{}, {}); }, "empty"), ErrorKind::invalid_argument);
  Loader loader(data, {});
  EXPECT_EQ(kind_of([&] { loader.set_limits(0, 1); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([&] { loader.set_limits(1, 0); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([&] { loader.set_limits(INT_MAX, 1); }, "threads"), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([&] { loader.set_limits(1, INT_MAX); }, "batches"), ErrorKind::invalid_argument);
  EXPECT_EQ(epoch_of(*std::make_unique<Loader>(data, LoaderOptions{.batch_size = int64_t{1} << 62})).size(),
            1u);
}

TEST_P(Loaders, TwoThreadsInNextWaitForEachOther) {
  for (const bool arrays : {false, true}) {
    const Dataset data =
        arrays ? array_rows({array_of<float>("x", std::vector<float>(300 * 100'000 / 50), {2000})})
               : make_dataset(Numbered{.samples = 300});
    Loader loader(data, {.batch_size = 1, .threads = GetParam()});
    std::mutex mutex;
    std::multiset<int64_t> seen;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] {
        for (int taken = 0; taken < 100; ++taken) {
          Batch batch;
          if (!loader.next(batch)) continue;
          const std::lock_guard lock(mutex);
          seen.insert(batch.indices()[0]);
          static_cast<void>(loader.stats());
        }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(seen.size(), 300u);
    EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 300u);
  }
}

TEST_P(Loaders, CloseWakesWhoWaitsInNext) {
  if (GetParam() == 0) return;  // then nobody waits: next() works
  std::mutex mutex;
  std::condition_variable changed;
  bool inside = false, open = false;
  Numbered own;
  own.on_read = [&](const SampleKey&) {
    std::unique_lock lock(mutex);
    inside = true;
    changed.notify_all();
    changed.wait(lock, [&] { return open; });
  };
  Loader loader(make_dataset(own), {.batch_size = 2, .threads = GetParam()});
  std::thread closer([&] {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return inside; });
    }
    std::thread opener([&] {  // close() waits for the samples in the threads' hands
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const std::lock_guard lock(mutex);
      open = true;
      changed.notify_all();
    });
    loader.close();
    opener.join();
  });
  Batch batch;
  EXPECT_EQ(kind_of([&] { loader.next(batch); }, "closed"), ErrorKind::unavailable);
  closer.join();
  EXPECT_EQ(kind_of([&] { loader.next(batch); }, "closed"), ErrorKind::unavailable);
  EXPECT_EQ(kind_of([&] { loader.begin(); }, "closed"), ErrorKind::unavailable);
  EXPECT_EQ(kind_of([&] { loader.load_state("{}"); }, "closed"), ErrorKind::unavailable);
  EXPECT_FALSE(loader.state().empty());
  EXPECT_EQ(loader.stats().batches, 0);
  loader.close();
}

TEST_P(Loaders, MayBeClosedAtAnyMomentByAnotherThread) {
  for (int round = 0; round < 40; ++round) {
    auto loader = std::make_unique<Loader>(make_dataset(Numbered{.samples = 2000}),
                                           LoaderOptions{.batch_size = 3, .threads = GetParam()});
    std::thread closer([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(37 * round));
      static_cast<void>(loader->state());
      loader->close();
    });
    Batch batch;
    EXPECT_EQ(kind_of([&] {
                while (loader->next(batch)) {
                }
                throw Error(ErrorKind::unavailable, "the epoch came to its end");
              }),
              ErrorKind::unavailable);
    closer.join();
  }
}

TEST_P(Loaders, CallsFromReadOfTheSameThreadAreRefusedOrMark) {
  Loader* self = nullptr;
  Numbered own;
  std::vector<ErrorKind> kinds;
  own.on_read = [&](const SampleKey& key) {
    if (GetParam() == 0 && key.index == 0) {
      Batch batch;
      kinds.push_back(kind_of([&] { self->next(batch); }, "inside"));
    }
    if (key.index == 2) self->close();
  };
  Loader loader(make_dataset(own), {.threads = GetParam()});
  self = &loader;
  Batch batch;
  EXPECT_EQ(kind_of([&] {
              while (loader.next(batch)) {
              }
            }),
            ErrorKind::unavailable);
  if (GetParam() == 0) {
    EXPECT_EQ(kinds, (std::vector<ErrorKind>{ErrorKind::invalid_argument}));
  }
}

TEST_P(Loaders, LimitsMayChangeAtAnyTime) {
  Loader loader(make_dataset(Numbered{.samples = 500}), {.batch_size = 2, .threads = GetParam()});
  loader.set_limits(1, 1);
  Batch batch;
  int64_t next = 0;
  while (loader.next(batch)) {
    EXPECT_EQ(batch.indices()[0], next);
    next += 2;
    loader.set_limits(1 + static_cast<int>(next) % 4, 1 + static_cast<int>(next) % 5);
  }
  EXPECT_EQ(next, 500);
}

TEST_P(Loaders, MoveAndAreRefusedWhereTheyWere) {
  Loader first(make_dataset(Numbered{.samples = 6}), {.batch_size = 2, .threads = GetParam()});
  Batch batch;
  ASSERT_TRUE(first.next(batch));
  Loader second(std::move(first));
  ASSERT_TRUE(second.next(batch));
  EXPECT_EQ(batch.number(), 1);
  EXPECT_EQ(kind_of([&] { first.next(batch); }, "moved"), ErrorKind::unavailable);
  Loader third(make_dataset(Numbered{}), {.threads = GetParam()});
  ASSERT_TRUE(third.next(batch));
  third = std::move(second);
  ASSERT_TRUE(third.next(batch));
  EXPECT_EQ(batch.number(), 2);
  EXPECT_FALSE(third.next(batch));
}

TEST_P(Loaders, WhatTheBatchHeldIsLetGoOfFirst) {
  Loader loader(make_dataset(Numbered{.samples = 6, .bad = {3}}), {.batch_size = 2, .threads = GetParam()});
  Batch batch;
  const auto held = [&] { return !batch.fields().empty() || batch.size() > 0; };
  ASSERT_TRUE(loader.next(batch));
  const std::weak_ptr<void> memory = batch.fields()[0].owner();
  EXPECT_EQ(kind_of([&] { loader.next(batch); }, "damaged"), ErrorKind::corrupt_data);
  EXPECT_FALSE(held());
  EXPECT_TRUE(memory.expired());
  ASSERT_TRUE(loader.next(batch));
  EXPECT_TRUE(held());
  EXPECT_FALSE(loader.next(batch));
  EXPECT_FALSE(held());
  ASSERT_TRUE(loader.next(batch));
  loader.close();
  EXPECT_EQ(kind_of([&] { loader.next(batch); }, "closed"), ErrorKind::unavailable);
  EXPECT_FALSE(held());
}

// What the outer loop of two over one loader does when its epoch was left inside of it.
TEST_P(Loaders, AnIteratorGoesOnInItsOwnEpochOnly) {
  const auto loader_of = [] {
    return Loader(make_dataset(Numbered{.samples = 20}), {.batch_size = 4, .threads = GetParam()});
  };
  const std::string start = loader_of().state();
  const std::pair<const char*, std::function<void(Loader&)>> leaves[] = {
      {"a loop that is broken off",
       [](Loader& loader) {
         for (const Batch& batch : loader)
           if (batch.number() == 2) break;
       }},
      {"a whole loop", [](Loader& loader) { epoch_of(loader); }},
      {"two epochs by next()",
       [](Loader& loader) {
         Batch batch;
         for (int ends = 0; ends < 2;) ends += !loader.next(batch);
       }},
      {"a state", [&](Loader& loader) { loader.load_state(start); }},
      {"another loader", [&](Loader& loader) {
         Loader other = loader_of();
         other.begin();
         loader = std::move(other);
       }}};
  for (const auto& [what, leave] : leaves) {
    SCOPED_TRACE(what);
    Loader loader = loader_of();
    auto outer = loader.begin();
    leave(loader);
    EXPECT_EQ(kind_of([&] { ++outer; }, "epoch was left"), ErrorKind::invalid_argument);
    EXPECT_EQ(outer->size(), 0);
    EXPECT_EQ(epoch_of(loader).size(), 5u);
  }
  // next() takes batches of the same epoch, up to its end.
  Loader loader = loader_of();
  auto outer = loader.begin();
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  ++outer;
  EXPECT_EQ(outer->number(), 2);
  while (loader.next(batch)) {
  }
  ++outer;
  EXPECT_EQ(outer, loader.end());
  EXPECT_EQ(++outer, loader.end());
  EXPECT_EQ(loader.epoch(), 1);
}

// What is seen of it without a sanitizer is little: the call uses what the destructor would have freed.
TEST_P(Loaders, TheDestructorWaitsUntilAnotherThreadHasLeftNext) {
  for (int round = 0; round < 20; ++round) {
    std::mutex mutex;
    std::condition_variable changed;
    bool inside = false, open = false;
    Numbered own{.samples = 100};
    own.on_read = [&](const SampleKey&) {
      std::unique_lock lock(mutex);
      inside = true;
      changed.notify_all();
      changed.wait(lock, [&] { return open; });
    };
    auto loader =
        std::make_unique<Loader>(make_dataset(own), LoaderOptions{.batch_size = 2, .threads = GetParam()});
    std::thread caller([&, raw = loader.get()] {
      Batch batch;
      try {
        raw->next(batch);  // once: the loader may be gone when it has come back
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::unavailable);
      }
    });
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return inside; });
    }
    std::thread opener([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // until the destructor has begun, mostly
      const std::lock_guard lock(mutex);
      open = true;
      changed.notify_all();
    });
    loader.reset();
    caller.join();
    opener.join();
  }
}

TEST(LazyLoaders, WithoutThreadsNothingIsReadBeforeItsBatch) {
  Numbered own;
  Loader loader(make_dataset(own), {.batch_size = 2});
  Batch batch;
  EXPECT_EQ(*own.reads, 0);
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(*own.reads, 2);
  loader.state();
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(*own.reads, 4);
}

TEST(LazyLoaders, ThreadsReadNoFurtherThanPrefetchSays) {
  Numbered own{.samples = 1000};
  Loader loader(make_dataset(own), {.batch_size = 1, .threads = 2, .prefetch = 3});
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  for (int waited = 0; *own.reads < 3 * 2 + 1 && waited < 20000; ++waited)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(*own.reads, 3 * 2 + 1);  // `prefetch` for each thread
}

}  // namespace
}  // namespace millrace
