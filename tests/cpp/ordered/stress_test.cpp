// Everything at once, many times: rows and pieces in one queue, limits that change, slots that users keep, units
// that fail, memory that runs out, batches thrown away, units taken off, and ends at any moment.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "core/slot_memory.h"
#include "millrace/error.h"
#include "ordered/queue.h"

namespace millrace::ordered {
namespace {

constexpr int64_t kForEver = 120'000'000'000;  // ns: who is not woken fails the test
constexpr auto kALittle = std::chrono::microseconds(50);
constexpr size_t kRings = 3, kBytesPerRow = 3000, kRowsPerPiece = 3;

// Of one slot, a unit a row, as pictures are; the first row may be what decides how large the batch is. Or of a
// slot in each of two rings, a unit a few rows of one of them, as arrays are.
struct Checked final : Batch {
  enum class Kind : uint8_t { rows, ragged_rows, pieces };

  Checked(int64_t number, Kind unit_kind, size_t row_count)
      : Batch(static_cast<int64_t>(unit_kind == Kind::pieces ? 2 * pieces(row_count) : row_count)),
        id(number), kind(unit_kind), rows(row_count), made(static_cast<size_t>(units)) {
    if (kind == Kind::pieces)
      for (const size_t ring : {1, 2}) slots.push_back({ring, rows, kBytesPerRow});
    else
      slots.push_back({0, rows, kind == Kind::rows ? std::optional(kBytesPerRow) : std::nullopt});
    ++alive;
  }
  ~Checked() { --alive; }

  static size_t pieces(size_t row_count) { return (row_count + kRowsPerPiece - 1) / kRowsPerPiece; }

  // Where a unit is written.
  std::span<uint8_t> bytes(int64_t unit) {
    const auto at = static_cast<size_t>(unit);
    if (kind != Kind::pieces) return {slots[0].lease.data() + at * kBytesPerRow, kBytesPerRow};
    const size_t count = pieces(rows), first = at % count * kRowsPerPiece;
    return {slots[at / count].lease.data() + first * kBytesPerRow,
            std::min(kRowsPerPiece, rows - first) * kBytesPerRow};
  }
  uint8_t pattern(int64_t unit) const { return static_cast<uint8_t>(id * 31 + unit + 1); }

  void make(int64_t unit) {
    ++made[static_cast<size_t>(unit)];
    if (kind == Kind::ragged_rows) {
      const std::lock_guard lock(mutex);
      if (!sized) slots[0].lease.resize(rows * kBytesPerRow);
      sized = true;
    }
    if (fails && unit % 4 == 1) throw std::runtime_error("unit " + std::to_string(unit));
    const auto to = bytes(unit);
    std::memset(to.data(), pattern(unit), to.size());
  }

  bool is_whole() {
    for (int64_t unit = 0; unit < units; ++unit) {
      const auto held = bytes(unit);
      const auto is_right = [&](uint8_t byte) { return byte == pattern(unit); };
      if (made[static_cast<size_t>(unit)] != 1 || !std::all_of(held.begin(), held.end(), is_right))
        return false;
    }
    return true;
  }

  const int64_t id;
  const Kind kind;
  const size_t rows;
  bool fails = false;
  std::vector<std::atomic<int>> made;  // how often, by unit
  std::mutex mutex;                    // guards `sized`, and the lease until it is set
  bool sized = false;
  static inline std::atomic<int> alive{0};
};

void make_unit(Claim& claim) {
  try {
    static_cast<Checked&>(*claim.batch).make(claim.unit);
  } catch (...) {
    claim.error = std::current_exception();
  }
}

class Round {
 public:
  explicit Round(uint32_t seed) : random_(seed), workers_(static_cast<int>(random_() % 5)) {
    const bool scarce = random_() % 4 == 0;
    if (scarce)
      no_memory_ = [calls = std::make_shared<std::atomic<int>>(0)](size_t bytes) {
        if (++*calls % 7 == 0) throw Error(ErrorKind::system, "no memory");
        return core::MemoryBlock(bytes);
      };
    queue_ = Queue::create(kRings, 1 + static_cast<int>(random_() % 3), no_memory_);
    for (int i = 0; i < workers_; ++i)
      threads_.emplace_back([this, i] {
        Claim claim;
        while (queue_->next(claim, i)) make_unit(claim);
      });
    threads_.emplace_back([this, seed, changes = random_() % 2 * (random_() % 50)] {
      for (uint32_t i = 0; i < changes; ++i) {
        queue_->set_limits(1 + static_cast<int>(i % 4), 1 + static_cast<int>((seed + i) % 3));
        std::this_thread::sleep_for(kALittle);
      }
    });
    threads_.emplace_back([this, goal = static_cast<int>(random_() % 40)] {
      while (taken_ < goal) std::this_thread::sleep_for(kALittle);
      queue_->close();
    });
    threads_.emplace_back([this] { drop(); });
  }

  void run() {
    while (step()) {
    }
    EXPECT_THROW(push(), Error);
    EXPECT_EQ(queue_->pop(base::now_ns() + kForEver), nullptr);
    ended_ = true;
    for (std::thread& thread : threads_) thread.join();
    if (random_() % 2) queue_.reset();
  }

 private:
  void push() {
    const auto kind = static_cast<Checked::Kind>(random_() % 3);
    auto batch = std::make_shared<Checked>(next_pushed_, kind, 1 + random_() % 12);
    batch->fails = random_() % 8 == 0;
    queue_->push(std::move(batch));
    ++next_pushed_;
  }

  // False: closed.
  bool step() {
    try {
      while (next_pushed_ < next_popped_ + 5) push();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unavailable) << error.what();
      return false;
    }
    switch (random_() % 16) {
      case 0:
        queue_->discard_all();
        own_ = {};
        next_popped_ = next_pushed_;
        return true;
      case 1:
        for (auto count = random_() % 20; count > 0; --count)
          if (const Claim last = queue_->take_last(); last.batch && last.unit == 0) --next_pushed_;
        break;
      default: break;
    }
    const int64_t deadline = base::now_ns() + (random_() % 2 ? kForEver : 0);
    if (workers_ == 0 && (own_.batch || queue_->next_of_oldest(own_))) {
      do make_unit(own_);
      while (queue_->next_of_oldest(own_) && base::now_ns() < deadline);
    }
    const bool waits = deadline > base::now_ns();
    const auto batch = std::static_pointer_cast<Checked>(queue_->pop(deadline));
    EXPECT_TRUE(!waits || base::now_ns() < deadline) << "nobody woke the consumer";
    if (!batch) return true;
    EXPECT_EQ(batch->id, next_popped_++);
    EXPECT_EQ(batch.use_count(), 1) << "the consumer is the only owner";
    EXPECT_TRUE(!batch->error || batch->fails || no_memory_) << "an error of another batch";
    EXPECT_TRUE(batch->error || batch->is_whole()) << batch->id;
    EXPECT_TRUE(batch->error || !batch->fails || batch->units < 2);
    ++taken_;
    for (Slot& slot : batch->slots)
      if (random_() % 2) kept_.push_back(std::move(slot.lease));
    if (kept_.size() > 8) {
      const std::lock_guard lock(mutex_);
      dropped_.swap(kept_);
    }
    return true;
  }

  // Of another thread: users drop tensors where they like.
  void drop() {
    while (!ended_) {
      std::deque<core::Lease> mine;
      {
        const std::lock_guard lock(mutex_);
        mine.swap(dropped_);
      }
      std::this_thread::sleep_for(kALittle);
    }
  }

  std::mt19937 random_;
  const int workers_;
  core::BlockSource no_memory_;
  std::shared_ptr<Queue> queue_;
  int64_t next_pushed_ = 0, next_popped_ = 0;
  Claim own_;  // of the consumer as the only worker
  std::deque<core::Lease> kept_;
  std::atomic<int> taken_{0};
  std::atomic<bool> ended_{false};
  std::mutex mutex_;  // guards dropped_
  std::deque<core::Lease> dropped_;
  std::vector<std::thread> threads_;
};

TEST(OrderedStress, RowsAndPiecesThroughOneQueue) {
  for (uint32_t seed = 0; seed < 80; ++seed) {
    Round(seed).run();
    ASSERT_EQ(Checked::alive, 0) << seed;
    if (HasFailure()) FAIL() << "in round " << seed;
  }
}

}  // namespace
}  // namespace millrace::ordered
