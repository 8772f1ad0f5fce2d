// SourcePool: what is read is open, and never more than it may have; whoever reads while it is let go reads
// on.
#include "io/source_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "../in_child.h"
#include "millrace/error.h"

namespace millrace::io {
namespace {

std::atomic<int> alive{0}, openings{0}, most_alive{0};

// Gives its number, as long as it lives.
class Numbered final : public ByteSource {
 public:
  explicit Numbered(uint8_t number) : number_(number) {
    ++openings;
    const int now = ++alive;
    for (int most = most_alive; most < now && !most_alive.compare_exchange_weak(most, now);) {
    }
  }
  ~Numbered() override {
    number_ = 255;
    --alive;
  }
  const std::string& name() const override { return name_; }
  int64_t size() const override { return 1; }
  void read_at(int64_t, std::span<uint8_t> into) const override {
    std::this_thread::yield();
    into[0] = number_;
  }

 private:
  uint8_t number_;
  const std::string name_ = "numbered";
};

std::vector<std::shared_ptr<const ByteSource>> numbered(const std::shared_ptr<SourcePool>& pool,
                                                        uint8_t count) {
  alive = openings = most_alive = 0;
  std::vector<std::shared_ptr<const ByteSource>> sources;
  for (uint8_t i = 0; i < count; ++i)
    sources.push_back(pool->add("s" + std::to_string(i), 1, [i] { return std::make_shared<Numbered>(i); }));
  return sources;
}

uint8_t read(const ByteSource& source) {
  uint8_t byte = 254;
  source.read_at(0, {&byte, 1});
  return byte;
}

TEST(SourcePool, KeepsThoseOpenThatWereReadLast) {
  const auto pool = std::make_shared<SourcePool>(2);
  auto sources = numbered(pool, 4);
  EXPECT_EQ(openings, 0) << "nothing is opened before it is read";
  EXPECT_EQ(sources[3]->name(), "s3");
  for (const size_t i : {0, 1, 0, 2, 0}) EXPECT_EQ(read(*sources[i]), i);
  EXPECT_EQ(openings, 3) << "0 was read after 1, so 2 took the place of 1";
  EXPECT_EQ(alive, 2);
  EXPECT_EQ(pool->open_now(), 2u);
  sources[0].reset();
  EXPECT_EQ(pool->open_now(), 1u);
  EXPECT_EQ(alive, 1);
  sources.clear();
  EXPECT_EQ(alive, 0);
  EXPECT_THROW(SourcePool(0), Error);
}

TEST(SourcePool, ThreadsReadWhatOthersLetGo) {
  constexpr int kThreads = 4, kOpen = 3;
  const auto pool = std::make_shared<SourcePool>(kOpen);
  const auto sources = numbered(pool, 10);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (unsigned t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 3000; ++i) {
        const size_t which = random() % sources.size();
        wrong += read(*sources[which]) != which;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(most_alive, kOpen + 2 * kThreads)
      << "each thread may read one that was let go, and be opening one";
  EXPECT_EQ(alive, kOpen);
}

TEST(SourcePool, OpensOnceForAllWhoWait) {
  const auto pool = std::make_shared<SourcePool>(2);
  alive = openings = 0;
  const auto slow = pool->add("slow", 1, [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return std::make_shared<Numbered>(7);
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([&] { EXPECT_EQ(read(*slow), 7); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(openings, 1);
}

TEST(SourcePool, AForkedChildReadsNothingAndClosesNothing) {
  const auto pool = std::make_shared<SourcePool>(2);
  auto sources = numbered(pool, 2);
  EXPECT_EQ(read(*sources[0]), 0);
  EXPECT_TRUE(in_child([&] {
    try {
      read(*sources[0]);
      return false;
    } catch (const Error& e) {
      sources.clear();
      return e.kind() == ErrorKind::unavailable && alive == 1;
    }
  }));
}

TEST(SourcePool, WhatCannotBeOpenedIsTriedAgain) {
  const auto pool = std::make_shared<SourcePool>(2);
  int tries = 0;
  const auto flaky = pool->add("flaky", 1, [&]() -> std::shared_ptr<const ByteSource> {
    if (++tries == 1) throw Error(ErrorKind::system, "no descriptors left");
    return std::make_shared<Numbered>(5);
  });
  EXPECT_THROW(read(*flaky), Error);
  EXPECT_EQ(pool->open_now(), 0u);
  EXPECT_EQ(read(*flaky), 5);
}

}  // namespace
}  // namespace millrace::io
