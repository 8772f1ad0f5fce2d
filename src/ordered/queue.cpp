#include "ordered/queue.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/checked.h"
#include "millrace/error.h"
#include "trace/stage_clock.h"

namespace millrace::ordered {

std::shared_ptr<Queue> Queue::create(size_t rings, int slots, const core::BlockSource& memory) {
  const std::shared_ptr<Queue> queue(new Queue);
  for (size_t i = 0; i < rings; ++i)
    queue->rings_.push_back(std::make_unique<core::BatchRing>(
        slots,
        [weak = std::weak_ptr(queue)] {
          if (const auto alive = weak.lock()) alive->slot_returned();
        },
        memory));
  queue->last_bytes_.resize(rings);
  return queue;
}

void Queue::push(std::shared_ptr<Batch> batch) {
  const Lock lock(mutex_);
  if (closed_) throw Error(ErrorKind::unavailable, "the loader is closed; make a new one");
  const bool nothing_else_to_claim = claim_ == batches_.size();
  const int64_t units = batch->units;
  batches_.push_back(std::move(batch));
  if (nothing_else_to_claim) wake_workers(units);
}

std::shared_ptr<Batch> Queue::pop(int64_t deadline_ns) {
  const std::chrono::steady_clock::time_point deadline{std::chrono::nanoseconds(deadline_ns)};
  Lock lock(mutex_);
  if (trace::current_stage_clock != nullptr) trace::current_stage_clock->note_ready(complete_count());
  for (bool timed_out = false;;) {
    if (batches_.empty()) return nullptr;
    start_oldest();
    if (batches_.front()->unfinished == 0) {
      auto batch = std::move(batches_.front());
      batches_.pop_front();
      --claim_;
      for (const Slot& slot : batch->slots)
        if (slot.lease) note_bytes(slot);
      return batch;
    }
    if (timed_out) return nullptr;
    consumer_waits_ = true;
    const trace::StageScope scope(trace::Stage::wait);
    timed_out = complete_.wait_until(lock, deadline) == std::cv_status::timeout;
    consumer_waits_ = false;
  }
}

// Notes a slot's bytes; if its rows vary, the most bytes lately: a batch much larger than all others is
// forgotten in a few dozen batches.
void Queue::note_bytes(const Slot& slot) {
  size_t& last = last_bytes_[slot.ring];
  last = slot.wanted > 0 ? std::max(slot.wanted, last - last / 16) : slot.lease.size_bytes();
}

// Only batches that hold memory can be complete, hence the loop is short.
int Queue::complete_count() const {
  return static_cast<int>(std::count_if(batches_.begin(), batches_.begin() + static_cast<ptrdiff_t>(claim_),
                                        [](const auto& batch) { return batch->unfinished == 0; }));
}

Claim Queue::take_last() {
  const Lock lock(mutex_);
  if (batches_.empty()) return {};
  Claim last{batches_.back(), --batches_.back()->units, nullptr};
  Batch& batch = *last.batch;
  if (batch.claimed <= last.unit) {
    --batch.unfinished;
    if (batch.claimed == batch.units && claim_ + 1 == batches_.size())
      ++claim_;  // its claimed units are all it has now
  }
  if (batch.units == 0) {
    batch.abandoned.store(true, std::memory_order_relaxed);
    batches_.pop_back();
    claim_ = std::min(claim_, batches_.size());
  }
  return last;
}

void Queue::discard_all() {
  Batches gone;  // dropped without the lock
  const Lock lock(mutex_);
  abandon_all(gone);
}

void Queue::abandon_all(Batches& gone) {
  gone.swap(batches_);
  claim_ = 0;
  for (const auto& batch : gone) batch->abandoned.store(true, std::memory_order_relaxed);
}

void Queue::close() {
  Batches gone;
  const Lock lock(mutex_);
  closed_ = true;
  abandon_all(gone);
  work_.notify_all();
  parked_.notify_all();
  complete_.notify_all();
}

void Queue::set_limits(int active_workers, int slots) {
  if (active_workers < 1)
    throw Error(ErrorKind::invalid_argument,
                "at least one worker has to be active, got " + std::to_string(active_workers));
  for (const auto& ring : rings_) ring->set_slots(slots);
  const Lock lock(mutex_);
  active_ = active_workers;
  work_.notify_all();
  parked_.notify_all();
}

bool Queue::empty() const {
  const Lock lock(mutex_);
  return batches_.empty();
}

Snapshot Queue::snapshot() const {
  Snapshot result;
  result.slots = slots();
  result.free_slots = rings_.empty() ? 0 : result.slots - rings_.front()->leased();
  const Lock lock(mutex_);
  result.outstanding = static_cast<int64_t>(batches_.size());
  result.claimed = static_cast<int64_t>(claim_);
  for (const auto& batch : batches_) result.complete += batch->unfinished == 0;
  if (!batches_.empty()) result.unfinished = batches_.front()->unfinished;
  return result;
}

int Queue::slots() const { return rings_.empty() ? 0 : rings_.front()->slots(); }

int64_t Queue::overflow_count() const {
  int64_t count = 0;
  for (const auto& ring : rings_) count += ring->overflow_count();
  return count;
}

bool Queue::next(Claim& claim, int worker) {
  Lock lock(mutex_);
  settle(claim, lock);
  while (!closed_) {
    const bool active = worker < active_;
    if (active && (claim.batch || claimable())) {
      if (!claim.batch) claim.batch = batches_[claim_];
      take_unit(claim);
      if (!claim.batch->has_unclaimed() && sleeping_ > 0 && claimable())
        wake_workers(batches_[claim_]->units);
      return true;
    }
    const trace::StageScope scope(trace::Stage::idle);
    if (!active) {
      claim.batch.reset();  // the queue has it, and may have to give it to others
      parked_.wait(lock);
      continue;
    }
    ++sleeping_;
    work_.wait(lock);
    --sleeping_;
  }
  return false;
}

bool Queue::next_of_oldest(Claim& claim) {
  Lock lock(mutex_);
  settle(claim, lock);
  if (!claim.batch) {
    if (batches_.empty()) return false;
    start_oldest();
    if (claim_ != 0) return false;
    claim.batch = batches_.front();
  }
  take_unit(claim);
  return true;
}

// Counts the unit off. The claim keeps its batch while that has another unit, so it is the one at claim_.
void Queue::settle(Claim& claim, Lock& lock) {
  if (!claim.batch) return;
  if (claim.error) keep_first_error(claim, lock);
  --claim.batch->unfinished;
  if (!claim.batch->has_unclaimed() || claim.batch->abandoned.load(std::memory_order_relaxed))
    let_go(claim, lock);
}

void Queue::keep_first_error(Claim& claim, Lock& lock) {
  if (!claim.batch->error) claim.batch->error.swap(claim.error);
  lock.unlock();
  claim.error = nullptr;
  lock.lock();
}

// Unless the batch was thrown away, the queue holds it, too, and the consumer is its only owner once it is
// complete.
void Queue::let_go(Claim& claim, Lock& lock) {
  if (claim.batch->unfinished == 0 && consumer_waits_ && !batches_.empty() && batches_.front() == claim.batch)
    complete_.notify_one();
  const bool abandoned = claim.batch->abandoned.load(std::memory_order_relaxed);
  if (abandoned) lock.unlock();
  claim.batch.reset();
  if (abandoned) lock.lock();
}

// Whether there is a unit to claim: the first batch that has one also has its slots, or gets them now.
bool Queue::claimable() {
  while (claim_ < batches_.size()) {
    Batch& batch = *batches_[claim_];
    if (batch.claimed > 0 || take_slots(batch, false)) return true;
    if (!batch.error) return false;
  }
  return false;
}

// Of the batch at claim_. False: slots are missing, or there was no memory, which is the end of the batch.
bool Queue::take_slots(Batch& batch, bool overflow_allowed) {
  try {
    for (Slot& slot : batch.slots) {
      if (slot.lease) continue;
      core::BatchRing& ring = *rings_[slot.ring];
      const size_t bytes =
          slot.row_bytes ? base::checked_mul(slot.rows, *slot.row_bytes, "batch") : last_bytes_[slot.ring];
      std::optional<core::Lease> lease = ring.try_acquire(bytes);
      if (!lease && overflow_allowed) lease = ring.acquire_overflow(bytes);
      if (!lease) return false;
      slot.lease = std::move(*lease);
    }
    return true;
  } catch (...) {
    batch.error = std::current_exception();
    batch.claimed = batch.units;
    batch.unfinished = 0;
    ++claim_;  // the consumer is not woken: it asks for the slots of the oldest batch itself before it waits
    return false;
  }
}

void Queue::start_oldest() {
  Batch& batch = *batches_.front();
  if (claim_ != 0 || batch.claimed > 0 || batch.has_slots()) return;
  if (take_slots(batch, true)) wake_workers(batch.units);
}

// Of the batch at claim_, which the claim has by now.
void Queue::take_unit(Claim& claim) {
  claim.unit = claim.batch->claimed++;
  if (!claim.batch->has_unclaimed()) ++claim_;
}

void Queue::slot_returned() {
  const Lock lock(mutex_);
  if (sleeping_ > 0 && claim_ < batches_.size() && !batches_[claim_]->has_slots())
    wake_workers(batches_[claim_]->units);
}

void Queue::wake_workers(int64_t units) {
  if (units >= sleeping_) {
    if (sleeping_ > 0) work_.notify_all();
  } else {
    for (int64_t i = 0; i < units; ++i) work_.notify_one();
  }
}

}  // namespace millrace::ordered
