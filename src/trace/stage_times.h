// StageTimes: nanoseconds per stage, counted per thread and read from outside.
//
// Each worker thread owns one StageTimes and is its only writer; a reader adds them up at any time. Relaxed
// atomics are enough: each counter is a statistic of its own and orders nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "trace/range.h"
#include "trace/stage_clock.h"

namespace millrace::trace {

class StageTimes {
 public:
  void add(Stage stage, int64_t ns) {
    auto& counter = ns_[static_cast<size_t>(stage)];
    counter.store(counter.load(std::memory_order_relaxed) + ns, std::memory_order_relaxed);  // single writer
  }
  int64_t ns(Stage stage) const { return ns_[static_cast<size_t>(stage)].load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<int64_t>, kStages> ns_{};
};

// Books the time between its construction and destruction, with the thread's clock too, and shows it as a
// range; `times` may be null.
class StageTimer {
 public:
  StageTimer(StageTimes* times, Stage stage)
      : range_(stage_name(stage)), times_(times), stage_(stage), clock_(current_stage_clock),
        start_(times || clock_ ? base::now_ns() : 0), before_(clock_ ? clock_->enter(stage, start_) : stage) {
  }
  ~StageTimer() {
    if (!times_ && !clock_) return;
    const int64_t now = base::now_ns();
    if (times_) times_->add(stage_, now - start_);
    if (clock_) clock_->enter(before_, now);
  }
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

 private:
  const TraceRange range_;
  StageTimes* const times_;
  const Stage stage_;
  StageClock* const clock_;
  const int64_t start_;
  const Stage before_;
};

}  // namespace millrace::trace
