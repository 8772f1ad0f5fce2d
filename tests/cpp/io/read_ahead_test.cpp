#include "io/read_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "millrace/error.h"

namespace millrace {
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
    if (bad_ >= offset && bad_ < offset + static_cast<int64_t>(into.size())) throw Error(ErrorKind::corrupt_data, "bad", name_, bad_);
    for (size_t i = 0; i < into.size(); ++i) into[i] = static_cast<uint8_t>((offset + static_cast<int64_t>(i)) % 251);
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
    ReadAhead reads(std::make_shared<SlowSource>(std::chrono::microseconds(pause)));
    std::vector<std::vector<uint8_t>> memory(200, std::vector<uint8_t>(kBytes));
    int64_t last = 0;
    for (size_t i = 0; i < memory.size(); ++i) {
      last = reads.add(static_cast<int64_t>(i) * kBytes, memory[i]);
      if (i % 7 != 6) continue;
      reads.finish(last);
      EXPECT_TRUE(is_right(memory[i], static_cast<int64_t>(i) * kBytes));
    }
    reads.finish(last);
    for (size_t i = 0; i < memory.size(); ++i) EXPECT_TRUE(is_right(memory[i], static_cast<int64_t>(i) * kBytes));
    reads.finish(last);  // again: nothing to do
  }
}

TEST(ReadAhead, AnErrorComesWithItsJobAndTheOthersGoOn) {
  ReadAhead reads(std::make_shared<SlowSource>(std::chrono::microseconds(10), 3 * kBytes + 5));
  std::vector<std::vector<uint8_t>> memory(6, std::vector<uint8_t>(kBytes));
  std::vector<int64_t> jobs;
  for (size_t i = 0; i < memory.size(); ++i) jobs.push_back(reads.add(static_cast<int64_t>(i) * kBytes, memory[i]));
  reads.finish(jobs[2]);
  EXPECT_THROW(reads.finish(jobs[5]), Error);
  reads.finish(jobs[5]);
  EXPECT_TRUE(is_right(memory[5], 5 * kBytes));
}

TEST(ReadAhead, ItsEndWaitsForOneReadAtMost) {
  const auto source = std::make_shared<SlowSource>(std::chrono::milliseconds(2));
  std::vector<std::vector<uint8_t>> memory(100, std::vector<uint8_t>(kBytes));
  {
    ReadAhead reads(source);
    for (auto& each : memory) reads.add(0, each);
  }
  EXPECT_LE(source->reads, 2);
}

}  // namespace
}  // namespace millrace
