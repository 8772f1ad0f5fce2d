// ClaimQueue by itself: claims in order, slots in order, the oldest batch never starves.
#include "loader/claim_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace millrace::loader {
namespace {

constexpr transforms::OutputShape kShape{3, 64, 352};

class Queue : public ::testing::Test {
 protected:
  void push(int64_t rows) {
    std::vector<RowKey> keys(static_cast<size_t>(rows), RowKey{next_id_ + 1, 0});
    queue_->push(std::make_shared<BatchTask>(next_id_++, nullptr, std::move(keys), kShape, base::DType::u8));
  }
  Claim claim() {
    Claim claim;
    RowFailure none;
    EXPECT_TRUE(queue_->next_claim(claim, none));
    return claim;
  }
  // Settles without taking another: through a queue that has nothing more to claim, next_claim() would sleep.
  void settle_inline(Claim& claim) {
    RowFailure none;
    queue_->next_claim_of_oldest(claim, none);
  }

  std::shared_ptr<ClaimQueue> queue_ = ClaimQueue::create(2);
  int64_t next_id_ = 0;
};

TEST_F(Queue, ClaimsRowsInOrderOfBatchAndRow) {
  push(2);
  push(1);
  const Claim a = claim(), b = claim(), c = claim();
  EXPECT_EQ(a.task->id, 0);
  EXPECT_EQ(a.row, 0);
  EXPECT_EQ(b.task->id, 0);
  EXPECT_EQ(b.row, 1);
  EXPECT_EQ(c.task->id, 1);
  EXPECT_EQ(c.row, 0);
  EXPECT_NE(a.task->lease.data(), c.task->lease.data());
}

TEST_F(Queue, TheOldestBatchGetsAnOverflowSlotOnlyWhenAllAreLeased) {
  push(1);
  EXPECT_EQ(queue_->pop_complete(0), nullptr);  // nobody works
  Claim first = claim();
  EXPECT_FALSE(first.task->lease.overflow());
  settle_inline(first);
  push(1);
  Claim second = claim();
  settle_inline(second);
  auto kept_first = queue_->pop_complete(0), kept_second = queue_->pop_complete(0);
  ASSERT_TRUE(kept_first && kept_second);
  push(1);
  EXPECT_EQ(queue_->ring().overflow_count(), 0);
  EXPECT_EQ(queue_->pop_complete(0), nullptr);
  EXPECT_EQ(queue_->ring().overflow_count(), 1);
  EXPECT_TRUE(claim().task->lease.overflow());
}

TEST_F(Queue, TakingRowsOffTheEndWakesNobodyAndCompletesWhatIsLeft) {
  push(2);
  push(2);
  Claim row = claim();
  EXPECT_EQ(queue_->take_last_row()->index, 2);
  EXPECT_EQ(queue_->take_last_row()->index, 2);  // the second batch is gone
  EXPECT_EQ(queue_->take_last_row()->index, 1);  // row 1 of the first, not claimed yet
  settle_inline(row);
  const auto done = queue_->pop_complete(0);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->rows, 1);
  EXPECT_EQ(done->submitted_rows, 2);
  EXPECT_FALSE(queue_->take_last_row());
  EXPECT_TRUE(queue_->empty());
}

TEST_F(Queue, TakingAnUntouchedBatchAwayLeavesTheOthersToClaim) {
  for (int i = 0; i < 3; ++i) push(1);
  EXPECT_EQ(queue_->take_last_row()->index, 3);
  EXPECT_EQ(claim().task->id, 0);
  EXPECT_EQ(claim().task->id, 1);
}

TEST_F(Queue, ARowTakenOffWhileInWorkIsWaitedFor) {
  push(2);
  Claim first = claim(), second = claim();
  EXPECT_TRUE(queue_->take_last_row());
  settle_inline(first);
  EXPECT_EQ(queue_->pop_complete(0), nullptr) << "a worker still writes into it";
  settle_inline(second);
  EXPECT_EQ(queue_->pop_complete(0)->rows, 1);
}

TEST_F(Queue, CloseWakesASleepingWorkerAndAWaitingConsumer) {
  std::thread worker([this] {
    Claim none;
    RowFailure failure;
    EXPECT_FALSE(queue_->next_claim(none, failure));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  queue_->close();
  worker.join();
  EXPECT_THROW(push(1), Error);
}

TEST_F(Queue, AParkedWorkerClaimsNothingUntilItIsLetIn) {
  queue_->set_limits(1, 2);
  std::atomic<int> claimed{0};
  std::thread worker([&] {
    Claim claim;
    RowFailure none;
    while (queue_->next_claim(claim, none, 1)) ++claimed;
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

TEST_F(Queue, WithFewerSlotsABatchWaitsForItsOwn) {
  queue_->set_limits(1, 1);
  push(1);
  push(1);
  Claim first = claim();
  settle_inline(first);
  auto kept = queue_->pop_complete(0);
  EXPECT_EQ(queue_->ring().slots(), 1);
  queue_->set_limits(1, 2);
  EXPECT_EQ(claim().task->id, 1);
  EXPECT_EQ(queue_->ring().overflow_count(), 0);
}

// Limits go up and down under workers and a consumer; each batch is whole, in order, and nobody sleeps for
// ever.
TEST_F(Queue, LimitsMayChangeAtAnyTime) {
  constexpr int kWorkers = 4, kBatches = 400;
  std::vector<std::thread> workers;
  std::atomic<int64_t> rows{0};
  for (int i = 0; i < kWorkers; ++i)
    workers.emplace_back([this, i, &rows] {
      Claim claim;
      RowFailure none;
      while (queue_->next_claim(claim, none, i)) ++rows;
    });
  std::thread limits([this] {
    for (int i = 0; i < 2000; ++i) queue_->set_limits(1 + i % 5, 1 + i % 3);
  });
  for (int i = 0; i < 4; ++i) push(3);
  for (int i = 0; i < kBatches; ++i) {
    std::shared_ptr<BatchTask> task;
    while (!task) task = queue_->pop_complete(base::now_ns() + 10'000'000);
    EXPECT_EQ(task->id, i);
    if (i + 4 < kBatches) push(3);
  }
  limits.join();
  queue_->close();
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(rows, 3 * kBatches);
}

TEST_F(Queue, ALeaseMayComeBackAfterTheQueueIsGone) {
  push(1);
  Claim row = claim();
  settle_inline(row);
  auto task = queue_->pop_complete(0);
  queue_.reset();
  task.reset();
}

}  // namespace
}  // namespace millrace::loader
