#include "collate/gather_engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/clock.h"
#include "collate/row_maker.h"
#include "core/consumer_seat.h"
#include "core/fork_guard.h"
#include "core/thread_group.h"
#include "millrace/error.h"
#include "trace/range.h"

namespace millrace::collate {
namespace {

// A field of a batch from here on is larger than its slots would stay in the caches: measured, 25 GB/s
// instead of 12 for 8 MiB.
constexpr size_t kPastCachesBytes = size_t{4} << 20;

size_t rows_per_piece(const RowCopy& copy) {
  return std::max<size_t>(1, copy.piece_bytes / std::max<size_t>(copy.row_bytes, 1));
}

int64_t piece_count(const RowCopy& copy) {
  const size_t rows = rows_per_piece(copy);
  return static_cast<int64_t>((copy.rows.size() + rows - 1) / rows);
}

}  // namespace

// `copies` and `pieces` are fixed; `leases` are fixed once there is one per copy, and the bytes behind them
// are written piecewise. The rest is under the lock.
struct GatherEngine::Task {
  explicit Task(std::vector<RowCopy> rows) : copies(std::move(rows)) {
    for (const RowCopy& copy : copies) pieces += piece_count(copy);
    unfinished = pieces;
  }

  void write(int64_t piece) const {
    for (size_t i = 0; i < copies.size(); ++i) {
      const RowCopy& copy = copies[i];
      if (const int64_t count = piece_count(copy); piece >= count) {
        piece -= count;
        continue;
      }
      const size_t first = static_cast<size_t>(piece) * rows_per_piece(copy);
      const size_t rows = std::min(rows_per_piece(copy), copy.rows.size() - first);
      const auto wanted = std::span(copy.rows).subspan(first, rows);
      uint8_t* const out = leases[i].data() + first * copy.row_bytes;
      if (copy.maker)
        copy.maker->make(wanted, out, copy.rows.size() * copy.row_bytes >= kPastCachesBytes);
      else
        gather_rows(wanted, copy.row_bytes, out);
      return;
    }
  }

  bool started() const { return leases.size() == copies.size(); }

  const std::vector<RowCopy> copies;
  int64_t pieces = 0;
  std::vector<core::Lease> leases;
  int64_t claimed = 0, unfinished = 0;
  bool discarded = false;
  std::exception_ptr error;  // no memory for it, or rows that could not be made: the first one
};

// Shared: slots that come back after the engine's end must not find it gone (they hold a weak_ptr).
struct GatherEngine::State {
  std::vector<std::unique_ptr<core::BatchRing>> rings;  // by field; fixed
  std::atomic<int64_t> copy_ns{0};                      // relaxed: a statistic

  std::mutex mutex;  // guards everything below
  std::condition_variable work, parked, complete;
  std::deque<std::shared_ptr<Task>> tasks;       // shared with the threads that write to them
  size_t claim = 0;                              // the first task with an unclaimed piece
  int active = std::numeric_limits<int>::max();  // threads from this number on are parked
  bool closed = false;

  // Returns what went wrong.
  std::exception_ptr write(const Task& task, int64_t piece) {
    const trace::TraceRange range("collate");
    const trace::StageScope scope(trace::Stage::collate);
    const int64_t start = base::now_ns();
    std::exception_ptr error;
    try {
      task.write(piece);
    } catch (...) {
      error = std::current_exception();
    }
    copy_ns.fetch_add(base::now_ns() - start, std::memory_order_relaxed);
    return error;
  }

  // Only batches that hold memory can be complete, hence the loop is short.
  int complete_count() const {
    const auto end = tasks.begin() + static_cast<ptrdiff_t>(claim);
    return static_cast<int>(
        std::count_if(tasks.begin(), end, [](const auto& task) { return task->unfinished == 0; }));
  }

  // Whether there is a piece to claim: the first task that has one also has its slots, or gets them now.
  bool claimable() {
    while (claim < tasks.size()) {
      Task& task = *tasks[claim];
      if (take_slots(task, false)) return true;
      if (!task.error) return false;
    }
    return false;
  }

  // False: slots are missing, or the task has failed.
  bool take_slots(Task& task, bool overflow_allowed) {
    try {
      while (!task.started()) {
        const RowCopy& copy = task.copies[task.leases.size()];
        const size_t bytes = base::checked_mul(copy.rows.size(), copy.row_bytes, "batch");
        core::BatchRing& ring = *rings[copy.field];
        std::optional<core::Lease> lease = ring.try_acquire(bytes);
        if (!lease && overflow_allowed) lease = ring.acquire_overflow(bytes);
        if (!lease) return false;
        task.leases.push_back(std::move(*lease));
      }
      return true;
    } catch (...) {
      task.error = std::current_exception();
      task.claimed = task.pieces;
      task.unfinished = 0;
      ++claim;
      complete.notify_one();
      return false;
    }
  }

  void start_oldest() {
    Task& task = *tasks.front();
    if (claim == 0 && !task.started() && take_slots(task, true)) work.notify_all();
  }

  int64_t take_piece() {
    Task& task = *tasks[claim];
    const int64_t piece = task.claimed++;
    if (task.claimed == task.pieces) ++claim;
    return piece;
  }

  void discard_all() {
    std::deque<std::shared_ptr<Task>> gone;  // dropped without the lock
    const std::lock_guard lock(mutex);
    gone.swap(tasks);
    claim = 0;
    for (const auto& task : gone) task->discarded = true;
  }

  void slot_returned() {
    const std::lock_guard lock(mutex);
    if (claim < tasks.size()) work.notify_all();
  }

  void run(int number, const std::shared_ptr<trace::StageClock>& clock) {
    const trace::StageLife life(clock, trace::Stage::collate);
    std::unique_lock lock(mutex);
    for (;;) {
      while (!closed && (number >= active || !claimable())) {
        const trace::StageScope scope(trace::Stage::idle);
        (number >= active ? parked : work).wait(lock);
      }
      if (closed) return;
      std::shared_ptr<Task> task = tasks[claim];
      const int64_t piece = take_piece();
      lock.unlock();
      std::exception_ptr error = write(*task, piece);
      lock.lock();
      if (error && !task->error) task->error = std::move(error);
      if (--task->unfinished == 0) complete.notify_one();
      if (!task->discarded) continue;  // the queue holds it too
      lock.unlock();
      task.reset();
      lock.lock();
    }
  }

  // The consumer as the only worker: pieces of the oldest task until it is complete or the deadline has
  // passed.
  void work_on_oldest(std::unique_lock<std::mutex>& lock, int64_t deadline_ns) {
    Task& task = *tasks.front();
    while (task.unfinished > 0 && !closed) {
      const int64_t piece = take_piece();
      lock.unlock();
      std::exception_ptr error = write(task, piece);
      lock.lock();
      if (error && !task.error) task.error = std::move(error);
      --task.unfinished;
      if (base::now_ns() >= deadline_ns) return;
    }
  }
};

struct GatherEngine::Running {
  std::shared_ptr<State> state = std::make_shared<State>();
  core::ConsumerSeat seat;
  std::vector<std::shared_ptr<trace::StageClock>> clocks;  // by thread
  core::ThreadGroup threads;                               // the last member: joined before the state goes
};

GatherEngine::GatherEngine(int threads, int slots, size_t fields, const core::BlockSource& memory)
    : generation_(core::fork_generation()), running_(std::make_unique<Running>()) {
  const auto& state = running_->state;
  for (size_t i = 0; i < fields; ++i)
    state->rings.push_back(std::make_unique<core::BatchRing>(
        slots,
        [weak = std::weak_ptr(state)] {
          if (const auto alive = weak.lock()) alive->slot_returned();
        },
        memory));
  try {
    for (int i = 0; i < threads; ++i) {
      const auto& clock = running_->clocks.emplace_back(std::make_shared<trace::StageClock>());
      running_->threads.start("millrace-" + std::to_string(i),
                              [raw = state.get(), i, clock] { raw->run(i, clock); });
    }
  } catch (...) {
    close();
    throw;
  }
}

GatherEngine::~GatherEngine() {
  if (generation_ != core::fork_generation())
    static_cast<void>(running_.release());
  else
    close();
}

GatherEngine::Running& GatherEngine::running() const {
  if (generation_ != core::fork_generation())
    throw Error(ErrorKind::unavailable,
                "this loader was made before fork(): its threads do not exist in the child process; make a "
                "new loader here");
  return *running_;
}

void GatherEngine::submit(std::vector<RowCopy> copies) {
  Running& running = this->running();
  State& state = *running.state;
  const auto sitting = running.seat.sit();
  auto task = std::make_shared<Task>(std::move(copies));
  if (task->pieces == 0) throw Error(ErrorKind::invalid_argument, "a batch needs at least one row");
  const std::lock_guard lock(state.mutex);
  state.tasks.push_back(std::move(task));
  state.work.notify_all();
}

GatherEngine::Status GatherEngine::next(std::vector<core::Lease>& out, int timeout_ms) {
  const trace::TraceRange range("wait for batch");
  Running& running = this->running();
  State& state = *running.state;
  if (running.seat.closed()) return Status::end;
  const auto sitting = running.seat.sit();  // so nobody else takes tasks off the queue
  const int64_t deadline_ns = base::now_ns() + int64_t{timeout_ms} * 1'000'000;
  std::shared_ptr<Task> task;  // dropped without the lock
  {
    std::unique_lock lock(state.mutex);
    if (state.tasks.empty()) return Status::end;
    if (trace::current_stage_clock != nullptr) trace::current_stage_clock->note_ready(state.complete_count());
    state.start_oldest();
    if (running.clocks.empty()) {  // no threads
      state.work_on_oldest(lock, deadline_ns);
    } else {
      const trace::StageScope scope(trace::Stage::wait);
      const std::chrono::steady_clock::time_point deadline{std::chrono::nanoseconds(deadline_ns)};
      state.complete.wait_until(lock, deadline,
                                [&state] { return state.closed || state.tasks.front()->unfinished == 0; });
    }
    running.seat.throw_if_closed();
    if (state.tasks.front()->unfinished > 0) return Status::pending;
    task = std::move(state.tasks.front());
    state.tasks.pop_front();
    --state.claim;
  }
  if (task->error) std::rethrow_exception(task->error);
  out = std::move(task->leases);
  return Status::ready;
}

void GatherEngine::discard_all() {
  Running& running = this->running();
  const auto sitting = running.seat.sit();
  running.state->discard_all();
}

void GatherEngine::close() {
  Running& running = this->running();
  running.seat.close();
  {
    const std::lock_guard lock(running.state->mutex);
    running.state->closed = true;
    running.state->work.notify_all();
    running.state->parked.notify_all();
    running.state->complete.notify_all();
  }
  if (running.seat.holds_current()) return;
  const auto sitting = running.seat.last();
  running.threads.join();
  running.state->discard_all();
}

void GatherEngine::set_limits(int active_threads, int slots) {
  if (active_threads < 1)
    throw Error(ErrorKind::invalid_argument,
                "at least one thread has to be active, got " + std::to_string(active_threads));
  State& state = *running().state;
  for (const auto& ring : state.rings) ring->set_slots(slots);
  const std::lock_guard lock(state.mutex);
  state.active = active_threads;
  state.work.notify_all();
  state.parked.notify_all();
}

int GatherEngine::slots() const {
  const auto& rings = running().state->rings;
  return rings.empty() ? 0 : rings.front()->slots();
}

int64_t GatherEngine::overflow_count() const {
  int64_t count = 0;
  for (const auto& ring : running().state->rings) count += ring->overflow_count();
  return count;
}

std::vector<trace::StageReading> GatherEngine::clocks() const {
  std::vector<trace::StageReading> result;
  if (generation_ == core::fork_generation())
    for (const auto& clock : running_->clocks) result.push_back(clock->read());
  return result;
}

int64_t GatherEngine::copy_ns() const { return running().state->copy_ns.load(std::memory_order_relaxed); }

}  // namespace millrace::collate
