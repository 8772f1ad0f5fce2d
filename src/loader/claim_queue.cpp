#include "loader/claim_queue.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "trace/stage_clock.h"

namespace millrace::loader {

std::shared_ptr<ClaimQueue> ClaimQueue::create(int slots, core::BlockSource memory) {
  const std::shared_ptr<ClaimQueue> queue(new ClaimQueue);
  queue->ring_ = std::make_unique<core::BatchRing>(
      slots,
      [weak = std::weak_ptr(queue)] {
        if (const auto alive = weak.lock()) alive->slot_returned();
      },
      std::move(memory));
  return queue;
}

void ClaimQueue::push(std::shared_ptr<BatchTask> task) {
  const Lock lock(mutex_);
  if (closed_) throw Error(ErrorKind::unavailable, "the loader is closed; make a new one");
  const bool nothing_else_to_claim = claim_ == tasks_.size();
  const int64_t rows = task->rows;
  tasks_.push_back(std::move(task));
  if (nothing_else_to_claim) wake_workers(rows);
}

std::shared_ptr<BatchTask> ClaimQueue::pop_complete(int64_t deadline_ns) {
  const std::chrono::steady_clock::time_point deadline{std::chrono::nanoseconds(deadline_ns)};
  Lock lock(mutex_);
  if (trace::current_stage_clock != nullptr) trace::current_stage_clock->note_ready(complete_count());
  for (bool timed_out = false;;) {
    if (tasks_.empty()) return nullptr;
    start_oldest();
    if (tasks_.front()->unfinished == 0) {
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      --claim_;
      if (task->lease) last_bytes_ = task->lease.size_bytes();
      return task;
    }
    if (timed_out) return nullptr;
    consumer_waits_ = true;
    const trace::StageScope scope(trace::Stage::wait);
    timed_out = complete_.wait_until(lock, deadline) == std::cv_status::timeout;
    consumer_waits_ = false;
  }
}

// Only batches that hold memory can be complete, hence the loop is short.
int ClaimQueue::complete_count() const {
  return static_cast<int>(std::count_if(tasks_.begin(), tasks_.begin() + static_cast<ptrdiff_t>(claim_),
                                        [](const auto& task) { return task->unfinished == 0; }));
}

std::optional<RowKey> ClaimQueue::take_last_row() {
  std::shared_ptr<BatchTask> gone;
  const Lock lock(mutex_);
  if (tasks_.empty()) return std::nullopt;
  BatchTask& last = *tasks_.back();
  const int64_t row = --last.rows;
  const RowKey key = last.keys[static_cast<size_t>(row)];
  if (last.claimed <= row) {
    --last.unfinished;
    if (last.claimed == last.rows && claim_ + 1 == tasks_.size())
      ++claim_;  // its claimed rows are all it has now
  }
  if (last.rows == 0) {
    last.abandoned.store(true, std::memory_order_relaxed);
    gone = std::move(tasks_.back());
    tasks_.pop_back();
    claim_ = std::min(claim_, tasks_.size());
  }
  return key;
}

void ClaimQueue::discard_all() {
  std::deque<std::shared_ptr<BatchTask>> gone;
  const Lock lock(mutex_);
  gone.swap(tasks_);
  claim_ = 0;
  for (const auto& task : gone) task->abandoned.store(true, std::memory_order_relaxed);
}

void ClaimQueue::close() {
  discard_all();
  const Lock lock(mutex_);
  closed_ = true;
  work_.notify_all();
  parked_.notify_all();
  complete_.notify_all();
}

void ClaimQueue::set_limits(int active_workers, int slots) {
  if (active_workers < 1)
    throw Error(ErrorKind::invalid_argument,
                "at least one worker has to be active, got " + std::to_string(active_workers));
  ring_->set_slots(slots);
  const Lock lock(mutex_);
  active_ = active_workers;
  work_.notify_all();
  parked_.notify_all();
}

bool ClaimQueue::empty() const {
  const Lock lock(mutex_);
  return tasks_.empty();
}

LoaderSnapshot ClaimQueue::snapshot() const {
  LoaderSnapshot result;
  result.slots = ring_->slots();
  result.free_slots = result.slots - ring_->leased();
  const Lock lock(mutex_);
  result.outstanding = static_cast<int64_t>(tasks_.size());
  result.claimed = static_cast<int64_t>(claim_);
  for (const auto& task : tasks_) result.complete += task->unfinished == 0;
  if (!tasks_.empty()) result.unfinished_rows = tasks_.front()->unfinished;
  return result;
}

bool ClaimQueue::next_claim(Claim& claim, RowFailure& failure, int worker) {
  std::shared_ptr<BatchTask> thrown_away;  // dropped without the lock
  Lock lock(mutex_);
  thrown_away = settle(claim, failure);
  while (!closed_) {
    const bool active = worker < active_;
    if (active && claimable()) {
      take_row(claim);
      if (claim.row + 1 == claim.task->rows && sleeping_ > 0 && claimable())
        wake_workers(tasks_[claim_]->rows);
      return true;
    }
    if (thrown_away) {  // a sleeper keeps no slot
      lock.unlock();
      thrown_away.reset();
      lock.lock();
      continue;
    }
    const trace::StageScope scope(trace::Stage::idle);
    if (!active) {
      parked_.wait(lock);
      continue;
    }
    ++sleeping_;
    work_.wait(lock);
    --sleeping_;
  }
  return false;
}

bool ClaimQueue::next_claim_of_oldest(Claim& claim, RowFailure& failure) {
  std::shared_ptr<BatchTask> thrown_away;
  const Lock lock(mutex_);
  thrown_away = settle(claim, failure);
  if (tasks_.empty()) return false;
  start_oldest();
  if (claim_ != 0) return false;
  take_row(claim);
  return true;
}

std::shared_ptr<BatchTask> ClaimQueue::settle(Claim& claim, RowFailure& failure) {
  std::shared_ptr<BatchTask> task = std::move(claim.task);
  if (!task) return nullptr;
  if (failure.any()) task->failures.push_back(std::move(failure));
  failure = {};
  if (--task->unfinished == 0 && consumer_waits_ && !tasks_.empty() && tasks_.front() == task)
    complete_.notify_one();
  // Unless it was thrown away the queue holds it too. Letting go here makes the consumer its only owner once
  // it is complete.
  return task->abandoned.load(std::memory_order_relaxed) ? task : nullptr;
}

// Whether there is a row to claim: the first batch that has one also has its slot, or gets it now.
bool ClaimQueue::claimable() {
  while (claim_ < tasks_.size()) {
    try {
      return tasks_[claim_]->lease || take_slot(*tasks_[claim_], false);
    } catch (...) {
      fail_batch(claim_);
    }
  }
  return false;
}

bool ClaimQueue::take_slot(BatchTask& task, bool overflow_allowed) {
  const size_t bytes = task.shape ? task.batch_bytes(*task.shape) : last_bytes_;
  std::optional<core::Lease> lease = ring_->try_acquire(bytes);
  if (!lease && overflow_allowed) lease = ring_->acquire_overflow(bytes);
  if (!lease) return false;
  task.lease = std::move(*lease);
  return true;
}

void ClaimQueue::start_oldest() {
  BatchTask& task = *tasks_.front();
  if (claim_ != 0 || task.lease) return;
  try {
    take_slot(task, true);
    wake_workers(task.rows);
  } catch (...) {
    fail_batch(0);
  }
}

void ClaimQueue::take_row(Claim& claim) {
  claim.task = tasks_[claim_];
  claim.row = claim.task->claimed++;
  if (claim.task->claimed == claim.task->rows) ++claim_;
}

void ClaimQueue::fail_batch(size_t position) {
  BatchTask& task = *tasks_[position];
  task.error = std::current_exception();
  task.claimed = task.rows;
  task.unfinished = 0;
  ++claim_;
  if (position == 0 && consumer_waits_) complete_.notify_one();
}

void ClaimQueue::slot_returned() {
  const Lock lock(mutex_);
  if (claim_ < tasks_.size() && !tasks_[claim_]->lease) wake_workers(tasks_[claim_]->rows);
}

void ClaimQueue::wake_workers(int64_t rows) {
  if (rows >= sleeping_) {
    if (sleeping_ > 0) work_.notify_all();
  } else {
    for (int64_t i = 0; i < rows; ++i) work_.notify_one();
  }
}

}  // namespace millrace::loader
