#include "io/read_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "millrace/error.h"

namespace millrace::io {
namespace {

// Byte i is i modulo 251. Reads take a while, and those that touch `bad` fail.
class SlowSource final : public ByteSource {
 public:
  explicit SlowSource(std::chrono::microseconds pause, int64_t bad = -1) : pause_(pause), bad_(bad) {}
  const std::string& name() const override { return name_; }
  int64_t size() const override { return 1 << 20; }
  void read_at(int64_t offset, std::span<uint8_t> into) const override {
    std::this_thread::sleep_for(pause_);
    ++reads;
    if (bad_ >= offset && bad_ < offset + static_cast<int64_t>(into.size()))
      throw Error(ErrorKind::corrupt_data, "bad", name_, bad_);
    for (size_t i = 0; i < into.size(); ++i)
      into[i] = static_cast<uint8_t>((offset + static_cast<int64_t>(i)) % 251);
  }
  mutable std::atomic<int> reads = 0;

 private:
  const std::chrono::microseconds pause_;
  const int64_t bad_;
  const std::string name_ = "slow";
};

constexpr int64_t kBytes = 1000;

bool is_right(const std::vector<uint8_t>& memory, int64_t offset) {
  for (size_t i = 0; i < memory.size(); ++i)
    if (memory[i] != (offset + static_cast<int64_t>(i)) % 251) return false;
  return true;
}

TEST(ReadAhead, EveryJobIsDoneWhenItIsFinished) {
  for (const int pause : {0, 50}) {
    const SlowSource source(std::chrono::microseconds{pause});
    ReadAhead reads;
    std::vector<std::vector<uint8_t>> memory(200, std::vector<uint8_t>(kBytes));
    int64_t last = 0;
    for (size_t i = 0; i < memory.size(); ++i) {
      last = reads.add(source, static_cast<int64_t>(i) * kBytes, memory[i]);
      if (i % 7 != 6) continue;
      reads.finish(last);
      EXPECT_TRUE(is_right(memory[i], static_cast<int64_t>(i) * kBytes));
    }
    reads.finish(last);
    for (size_t i = 0; i < memory.size(); ++i)
      EXPECT_TRUE(is_right(memory[i], static_cast<int64_t>(i) * kBytes));
    reads.finish(last);  // again: nothing to do
  }
}

TEST(ReadAhead, AnErrorComesWithItsJobAndTheOthersGoOn) {
  const SlowSource source(std::chrono::microseconds(10), 3 * kBytes + 5);
  ReadAhead reads;
  std::vector<std::vector<uint8_t>> memory(6, std::vector<uint8_t>(kBytes));
  std::vector<int64_t> jobs;
  for (size_t i = 0; i < memory.size(); ++i)
    jobs.push_back(reads.add(source, static_cast<int64_t>(i) * kBytes, memory[i]));
  reads.finish(jobs[2]);
  EXPECT_THROW(reads.finish(jobs[5]), Error);
  reads.finish(jobs[5]);
  EXPECT_TRUE(is_right(memory[5], 5 * kBytes));
}

TEST(ReadAhead, ItsEndWaitsForOneReadAtMost) {
  const SlowSource source(std::chrono::milliseconds(2));
  std::vector<std::vector<uint8_t>> memory(100, std::vector<uint8_t>(kBytes));
  {
    ReadAhead reads;
    for (auto& each : memory) reads.add(source, 0, each);
  }
  EXPECT_LE(source.reads, 2);
}

TEST(ReadAhead, LargeJobsAreDividedAndTheirErrorComesWhereverItWas) {
  constexpr size_t kLarge = 900'000;
  for (const int64_t bad : {int64_t{-1}, int64_t{0}, int64_t{kLarge - 1}}) {
    const SlowSource source(std::chrono::microseconds(10), bad);
    std::vector<uint8_t> memory(kLarge);
    ReadAhead reads;
    const int64_t job = reads.add(source, 0, memory);
    if (bad >= 0) {
      EXPECT_THROW(reads.finish(job), Error);
    } else {
      reads.finish(job);
      EXPECT_TRUE(is_right(memory, 0));
      EXPECT_GT(source.reads, 1);
    }
  }
}

TEST(ReadAhead, NothingIsWrittenAfterADropAndTheNextSourceIsServed) {
  const SlowSource first(std::chrono::microseconds(100)), second(std::chrono::microseconds(0));
  ReadAhead reads;
  for (int round = 0; round < 50; ++round) {
    std::vector<std::vector<uint8_t>> memory(20, std::vector<uint8_t>(kBytes));
    for (auto& each : memory) reads.add(first, 0, each);
    std::vector<uint8_t> other(kBytes);
    EXPECT_THROW(reads.add(second, 0, other), Error);
    reads.drop(second);  // has no jobs
    if (round % 2) std::this_thread::sleep_for(std::chrono::microseconds(150));
    reads.drop(first);
    const int seen = first.reads;
    memory.clear();
    reads.finish(reads.add(second, 7 * kBytes, other));
    EXPECT_TRUE(is_right(other, 7 * kBytes));
    EXPECT_EQ(first.reads, seen);
  }
}

}  // namespace
}  // namespace millrace::io
