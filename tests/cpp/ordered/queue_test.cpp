// The ordered queue by itself: claims in order, slots in order, the oldest batch never starves.
#include "ordered/queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "millrace/error.h"

namespace millrace::ordered {
namespace {

constexpr size_t kRowBytes = 70'000;

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

TEST_F(OrderedQueue, CloseWakesASleepingWorkerAndEndsTheConsumersCalls) {
  std::thread worker([this] {
    Claim none;
    EXPECT_FALSE(queue_->next(none));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  queue_->close();
  worker.join();
  EXPECT_THROW(push(1), Error);
  EXPECT_EQ(queue_->pop(base::now_ns() + 600'000'000'000), nullptr);
}

TEST_F(OrderedQueue, AParkedWorkerClaimsNothingUntilItIsLetIn) {
  queue_->set_limits(1, 2);
  std::atomic<int> claimed{0};
  std::thread worker([&] {
    Claim claim;
    while (queue_->next(claim, 1)) ++claimed;
  });
  push(2);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(claimed, 0);
  queue_->set_limits(2, 2);
  while (claimed < 2) std::this_thread::yield();
  queue_->close();
  worker.join();
  EXPECT_THROW(queue_->set_limits(0, 2), Error);
  EXPECT_THROW(queue_->set_limits(1, 0), Error);
}

TEST_F(OrderedQueue, ASleepingWorkerIsWokenByABatchAndByASlot) {
  queue_->set_limits(4, 1);
  std::atomic<int> claimed{0};
  std::thread worker([&] {
    Claim claim;
    while (queue_->next(claim)) ++claimed;
  });
  const auto wait_for = [&](int count) {
    while (claimed < count) std::this_thread::sleep_for(std::chrono::microseconds(100));
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  push(1);
  wait_for(1);
  auto kept = queue_->pop(base::now_ns() + 600'000'000'000);
  ASSERT_TRUE(kept);
  push(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(claimed, 1) << "the only slot is kept";
  kept.reset();
  wait_for(2);
  queue_->close();
  worker.join();
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
