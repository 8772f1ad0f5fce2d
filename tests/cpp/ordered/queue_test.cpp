// The ordered queue by itself: claims in order, slots in order, the oldest batch never starves.
#include "ordered/queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "millrace/error.h"
#include "trace/stage_clock.h"

namespace millrace::ordered {
namespace {

constexpr size_t kRowBytes = 70'000;
constexpr int64_t kMinutes = 120'000'000'000;  // in ns: who is not woken by then fails the test

template <class Condition>
bool comes_true(const Condition& condition) {
  for (const int64_t deadline = base::now_ns() + kMinutes; base::now_ns() < deadline;) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return false;
}

// Who waits enters the stage under the queue's lock, so a call that gets the lock after this finds it
// waiting.
bool comes_to(const trace::StageClock& clock, trace::Stage stage) {
  return comes_true([&] { return clock.read().stage == stage; });
}

// Threads with these numbers. With `hold`, each keeps the unit that it claimed in work until another is claimed.
class Workers {
 public:
  Workers(Queue& queue, std::initializer_list<int> numbers, bool hold = false) : queue_(queue) {
    for (const int number : numbers) {
      const auto& clock = clocks_.emplace_back(std::make_shared<trace::StageClock>());
      threads_.emplace_back([this, number, hold, clock] {
        const trace::StageLife life(clock, trace::Stage::collate);
        Claim claim;
        while (queue_.next(claim, number)) {
          const int mine = ++claimed_;
          if (hold) comes_true([&] { return claimed_ > mine || closing_; });
        }
      });
    }
  }
  ~Workers() {
    closing_ = true;
    queue_.close();
    for (std::thread& thread : threads_) thread.join();
  }

  bool all_sleep() const {
    return std::all_of(clocks_.begin(), clocks_.end(),
                       [](const auto& clock) { return comes_to(*clock, trace::Stage::idle); });
  }
  bool come_to_claim(int units) const {
    return comes_true([&] { return claimed_ == units; });
  }
  int claimed() const { return claimed_; }

 private:
  Queue& queue_;
  std::atomic<int> claimed_{0};
  std::atomic<bool> closing_{false};
  std::vector<std::shared_ptr<trace::StageClock>> clocks_;
  std::vector<std::thread> threads_;
};

struct Numbered final : Batch {
  Numbered(int64_t number, int64_t unit_count) : Batch(unit_count), id(number) {}
  const int64_t id;
};

int64_t id_of(const Claim& claim) { return static_cast<const Numbered&>(*claim.batch).id; }

class OrderedQueue : public ::testing::Test {
 protected:
  // A batch of one slot, whose rows are the units; or of the rings that are named.
  void push(int64_t units, std::initializer_list<size_t> rings = {0},
            std::optional<size_t> row_bytes = kRowBytes) {
    auto batch = std::make_shared<Numbered>(next_id_++, units);
    for (const size_t ring : rings) batch->slots.push_back({ring, static_cast<size_t>(units), row_bytes});
    queue_->push(std::move(batch));
  }
  Claim claim() {
    Claim claim;
    EXPECT_TRUE(queue_->next(claim));
    return claim;
  }
  // Settles without taking another: with nothing more to claim, next() would sleep.
  void settle(Claim& claim) { queue_->next_of_oldest(claim); }
  // A batch of one unit, from the beginning to the end.
  std::shared_ptr<Batch> made() {
    Claim only = claim();
    settle(only);
    return queue_->pop(0);
  }

  std::shared_ptr<Queue> queue_ = Queue::create(2, 2);
  int64_t next_id_ = 0;
};

TEST_F(OrderedQueue, ClaimsUnitsInOrderOfBatchAndUnit) {
  push(2);
  push(1);
  const Claim a = claim(), b = claim(), c = claim();
  EXPECT_EQ(id_of(a), 0);
  EXPECT_EQ(a.unit, 0);
  EXPECT_EQ(id_of(b), 0);
  EXPECT_EQ(b.unit, 1);
  EXPECT_EQ(id_of(c), 1);
  EXPECT_EQ(c.unit, 0);
  EXPECT_NE(a.batch->slots[0].lease.data(), c.batch->slots[0].lease.data());
}

TEST_F(OrderedQueue, TheOldestBatchGetsAnOverflowSlotOnlyWhenAllAreLeased) {
  push(1);
  EXPECT_EQ(queue_->pop(0), nullptr);  // nobody works
  const auto kept_first = made();
  EXPECT_FALSE(kept_first->slots[0].lease.overflow());
  push(1);
  const auto kept_second = made();
  push(1);
  EXPECT_EQ(queue_->overflow_count(), 0);
  EXPECT_EQ(queue_->pop(0), nullptr);
  EXPECT_EQ(queue_->overflow_count(), 1);
  EXPECT_TRUE(claim().batch->slots[0].lease.overflow());
}

TEST_F(OrderedQueue, ABatchKeepsTheSlotsThatItHasWhileItWaitsForOthers) {
  push(1, {1});
  const auto kept_first = made();
  push(1, {1});
  const auto kept_second = made();
  push(1, {0, 1});  // ring 1 has no more
  EXPECT_EQ(queue_->snapshot().free_slots, 2);
  EXPECT_EQ(queue_->pop(0), nullptr);
  const Claim both = claim();
  EXPECT_FALSE(both.batch->slots[0].lease.overflow());
  EXPECT_TRUE(both.batch->slots[1].lease.overflow());
  EXPECT_EQ(queue_->snapshot().free_slots, 1);
}

TEST_F(OrderedQueue, ABatchOfUnknownSizeGetsAsManyBytesAsTheLastOne) {
  push(2, {0}, std::nullopt);
  Claim first = claim(), second = claim();
  EXPECT_EQ(first.batch->slots[0].lease.size_bytes(), 0u);
  first.batch->slots[0].lease.resize(1234);
  settle(first);
  settle(second);
  queue_->pop(0);
  push(1, {0}, std::nullopt);
  EXPECT_EQ(claim().batch->slots[0].lease.size_bytes(), 1234u);
}

TEST_F(OrderedQueue, TheFirstErrorOfAUnitIsTheBatchs) {
  push(3);
  Claim good = claim(), first = claim(), second = claim();
  first.error = std::make_exception_ptr(std::runtime_error("first"));
  second.error = std::make_exception_ptr(std::runtime_error("second"));
  for (Claim* unit : {&good, &first, &second}) settle(*unit);
  EXPECT_FALSE(second.error) << "the next unit would have it";
  const auto batch = queue_->pop(0);
  ASSERT_TRUE(batch);
  try {
    std::rethrow_exception(batch->error);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
}

TEST_F(OrderedQueue, TakingUnitsOffTheEndWakesNobodyAndCompletesWhatIsLeft) {
  push(2);
  push(2);
  Claim unit = claim();
  EXPECT_EQ(id_of(queue_->take_last()), 1);
  EXPECT_EQ(queue_->take_last().unit, 0);
  EXPECT_EQ(queue_->snapshot().outstanding, 1);  // the second batch is gone
  const Claim last = queue_->take_last();        // unit 1 of the first, not claimed yet
  EXPECT_EQ(id_of(last), 0);
  EXPECT_EQ(last.unit, 1);
  settle(unit);
  const auto done = queue_->pop(0);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->units, 1);
  EXPECT_FALSE(queue_->take_last().batch);
  EXPECT_TRUE(queue_->empty());
}

TEST_F(OrderedQueue, TakingAnUntouchedBatchAwayLeavesTheOthersToClaim) {
  for (int i = 0; i < 3; ++i) push(1);
  EXPECT_EQ(id_of(queue_->take_last()), 2);
  EXPECT_EQ(id_of(claim()), 0);
  EXPECT_EQ(id_of(claim()), 1);
}

TEST_F(OrderedQueue, AUnitTakenOffWhileInWorkIsWaitedFor) {
  push(2);
  Claim first = claim(), second = claim();
  EXPECT_EQ(queue_->take_last().unit, 1);
  settle(first);
  EXPECT_EQ(queue_->pop(0), nullptr) << "a worker still writes into it";
  settle(second);
  EXPECT_EQ(queue_->pop(0)->units, 1);
}

TEST_F(OrderedQueue, CloseWakesWhoSleepsAndEndsTheConsumersCalls) {
  queue_->set_limits(1, 2);
  {
    const Workers one_active(*queue_, {0, 1});
    ASSERT_TRUE(one_active.all_sleep());
  }
  EXPECT_THROW(push(1), Error);
  EXPECT_EQ(queue_->pop(base::now_ns() + kMinutes), nullptr);
}

TEST_F(OrderedQueue, TheConsumerIsWokenByTheLastUnitOfItsBatch) {
  push(2);
  Claim first = claim(), second = claim();
  const auto clock = std::make_shared<trace::StageClock>();
  std::thread consumer([&] {
    const trace::StageLife life(clock, trace::Stage::step);
    const int64_t deadline = base::now_ns() + kMinutes;
    EXPECT_TRUE(queue_->pop(deadline));
    EXPECT_LT(base::now_ns(), deadline);
  });
  EXPECT_TRUE(comes_to(*clock, trace::Stage::wait));
  settle(first);
  settle(second);
  consumer.join();
}

TEST_F(OrderedQueue, AParkedWorkerClaimsNothingUntilItIsLetIn) {
  queue_->set_limits(1, 2);
  push(2);
  const Workers parked(*queue_, {1});
  ASSERT_TRUE(parked.all_sleep());
  EXPECT_EQ(parked.claimed(), 0);
  queue_->set_limits(2, 2);
  EXPECT_TRUE(parked.come_to_claim(2));
  EXPECT_THROW(queue_->set_limits(0, 2), Error);
  EXPECT_THROW(queue_->set_limits(1, 0), Error);
}

TEST_F(OrderedQueue, ASleepingWorkerIsWokenByABatch) {
  const Workers one(*queue_, {0});
  ASSERT_TRUE(one.all_sleep());
  push(1);
  EXPECT_TRUE(one.come_to_claim(1));
}

TEST_F(OrderedQueue, ASleepingWorkerIsWokenByASlotThatComesBack) {
  queue_->set_limits(1, 1);
  push(1);
  auto kept = made();
  push(1);
  const Workers one(*queue_, {0});
  ASSERT_TRUE(one.all_sleep());
  EXPECT_EQ(one.claimed(), 0) << "the only slot is kept";
  kept.reset();
  EXPECT_TRUE(one.come_to_claim(1));
}

TEST_F(OrderedQueue, ASleepingWorkerIsWokenByMoreSlots) {
  queue_->set_limits(1, 1);
  push(1);
  const auto kept = made();
  push(1);
  const Workers one(*queue_, {0});
  ASSERT_TRUE(one.all_sleep());
  queue_->set_limits(1, 2);
  EXPECT_TRUE(one.come_to_claim(1));
}

TEST_F(OrderedQueue, WhoClaimsTheLastUnitOfABatchWakesAnotherForTheNext) {
  queue_->set_limits(2, 1);
  push(1, {1});
  auto kept = made();
  push(1, {1});
  push(1, {0});
  const Workers two(*queue_, {0, 1}, /*hold=*/true);
  ASSERT_TRUE(two.all_sleep());
  kept.reset();  // wakes one, for the only unit of the first batch
  EXPECT_TRUE(two.come_to_claim(2));
}

TEST_F(OrderedQueue, WithFewerSlotsABatchWaitsForItsOwn) {
  queue_->set_limits(1, 1);
  push(1);
  push(1);
  Claim first = claim();
  settle(first);
  const auto kept = queue_->pop(0);
  EXPECT_EQ(queue_->slots(), 1);
  queue_->set_limits(1, 2);
  EXPECT_EQ(id_of(claim()), 1);
  EXPECT_EQ(queue_->overflow_count(), 0);
}

TEST_F(OrderedQueue, ALeaseMayComeBackAfterTheQueueIsGone) {
  push(1);
  auto batch = made();
  ASSERT_TRUE(batch);
  queue_.reset();
  batch.reset();
}

}  // namespace
}  // namespace millrace::ordered
