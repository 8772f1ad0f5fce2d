#include "collate/gather_engine.h"

#include <algorithm>
#include <atomic>
#include <span>
#include <string>
#include <utility>

#include "base/clock.h"
#include "collate/row_maker.h"
#include "core/consumer_seat.h"
#include "core/fork_guard.h"
#include "core/thread_group.h"
#include "millrace/error.h"
#include "ordered/queue.h"
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

struct Task final : ordered::Batch {
  explicit Task(std::vector<RowCopy> rows) : Batch(0), copies(std::move(rows)) {
    slots.reserve(copies.size());
    for (const RowCopy& copy : copies) {
      slots.push_back({copy.field, copy.rows.size(), copy.row_bytes});
      units += piece_count(copy);
    }
    unfinished = units;
  }

  void write(int64_t piece) const {
    size_t field = 0;
    for (; piece >= piece_count(copies[field]); ++field) piece -= piece_count(copies[field]);
    const RowCopy& copy = copies[field];
    const size_t first = static_cast<size_t>(piece) * rows_per_piece(copy);
    const size_t rows = std::min(rows_per_piece(copy), copy.rows.size() - first);
    const auto wanted = std::span(copy.rows).subspan(first, rows);
    uint8_t* const out = slots[field].lease.data() + first * copy.row_bytes;
    if (copy.maker)
      copy.maker->make(wanted, out, copy.rows.size() * copy.row_bytes >= kPastCachesBytes);
    else
      gather_rows(wanted, copy.row_bytes, out);
  }

  const std::vector<RowCopy> copies;
};

}  // namespace

struct GatherEngine::Running {
  int64_t write(ordered::Claim& claim);

  std::shared_ptr<ordered::Queue> queue;
  core::ConsumerSeat seat;
  ordered::Claim own;                                      // of the consumer as the only worker
  std::atomic<int64_t> copy_ns{0};                         // relaxed: a statistic
  std::vector<std::shared_ptr<trace::StageClock>> clocks;  // by thread
  core::ThreadGroup threads;  // the last member: joined before anything they use goes
};

// Returns when it was done.
int64_t GatherEngine::Running::write(ordered::Claim& claim) {
  const trace::TraceRange range("collate");
  const trace::StageScope scope(trace::Stage::collate);
  const int64_t start = base::now_ns();
  try {
    static_cast<const Task&>(*claim.batch).write(claim.unit);
  } catch (...) {
    claim.error = std::current_exception();
  }
  const int64_t end = base::now_ns();
  copy_ns.fetch_add(end - start, std::memory_order_relaxed);
  return end;
}

GatherEngine::GatherEngine(int threads, int slots, size_t fields, const core::BlockSource& memory)
    : generation_(core::fork_generation()), running_(std::make_unique<Running>()) {
  Running& running = *running_;
  running.queue = ordered::Queue::create(fields, slots, memory);
  try {
    for (int i = 0; i < threads; ++i) {
      const auto& clock = running.clocks.emplace_back(std::make_shared<trace::StageClock>());
      running.threads.start("millrace-" + std::to_string(i), [&running, i, clock] {
        const trace::StageLife life(clock, trace::Stage::collate);
        ordered::Claim claim;
        while (running.queue->next(claim, i)) running.write(claim);
      });
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
  const auto sitting = running.seat.sit();
  auto task = std::make_shared<Task>(std::move(copies));
  if (task->units == 0) throw Error(ErrorKind::invalid_argument, "a batch needs at least one row");
  running.queue->push(std::move(task));
}

GatherEngine::Status GatherEngine::next(std::vector<core::Lease>& out, int timeout_ms) {
  const trace::TraceRange range("wait for batch");
  Running& running = this->running();
  ordered::Queue& queue = *running.queue;
  if (running.seat.closed()) return Status::end;
  const auto sitting = running.seat.sit();
  const int64_t deadline_ns = base::now_ns() + int64_t{timeout_ms} * 1'000'000;
  ordered::Claim& own = running.own;
  if (running.clocks.empty() && (own.batch || queue.next_of_oldest(own))) {  // no threads
    int64_t now = 0;
    do now = running.write(own);
    while (queue.next_of_oldest(own) && now < deadline_ns);
  }
  const std::shared_ptr<ordered::Batch> batch = queue.pop(deadline_ns);
  running.seat.throw_if_closed();
  if (!batch) return queue.empty() ? Status::end : Status::pending;
  if (batch->error) std::rethrow_exception(batch->error);
  out.clear();
  for (ordered::Slot& slot : batch->slots) out.push_back(std::move(slot.lease));
  return Status::ready;
}

void GatherEngine::discard_all() {
  Running& running = this->running();
  const auto sitting = running.seat.sit();
  running.queue->discard_all();
  running.own = {};
}

void GatherEngine::close() {
  Running& running = this->running();
  running.seat.close();
  running.queue->close();
  if (running.seat.holds_current()) return;
  const auto sitting = running.seat.last();
  running.threads.join();
  running.own = {};
}

void GatherEngine::set_limits(int active_threads, int slots) {
  running().queue->set_limits(active_threads, slots);
}

int GatherEngine::slots() const { return running().queue->slots(); }

int64_t GatherEngine::overflow_count() const { return running().queue->overflow_count(); }

std::vector<trace::StageReading> GatherEngine::clocks() const {
  std::vector<trace::StageReading> result;
  if (generation_ == core::fork_generation())
    for (const auto& clock : running_->clocks) result.push_back(clock->read());
  return result;
}

int64_t GatherEngine::copy_ns() const { return running().copy_ns.load(std::memory_order_relaxed); }

}  // namespace millrace::collate
