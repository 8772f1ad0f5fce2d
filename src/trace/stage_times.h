// StageTimes: nanoseconds per stage, counted per thread and read from outside.
//
// Each worker thread owns one StageTimes and is its only writer; a reader adds them up at any time. Relaxed atomics are enough:
// each counter is a statistic of its own and orders nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "trace/range.h"

namespace millrace {

enum class Stage : uint8_t { read, decode, transform, collate, count };

inline const char* stage_name(Stage stage) {
  constexpr std::array<const char*, static_cast<size_t>(Stage::count)> names{"read", "decode", "transform", "collate"};
  return names[static_cast<size_t>(stage)];
}

class StageTimes {
 public:
  void add(Stage stage, int64_t ns) {
    auto& counter = ns_[static_cast<size_t>(stage)];
    counter.store(counter.load(std::memory_order_relaxed) + ns, std::memory_order_relaxed);  // single writer
  }
  int64_t ns(Stage stage) const { return ns_[static_cast<size_t>(stage)].load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<int64_t>, static_cast<size_t>(Stage::count)> ns_{};
};

// Books the time between its construction and destruction, and shows it as a range; `times` may be null.
class StageTimer {
 public:
  StageTimer(StageTimes* times, Stage stage)
      : range_(stage_name(stage)), times_(times), stage_(stage), start_(times ? now_ns() : 0) {}
  ~StageTimer() { if (times_) times_->add(stage_, now_ns() - start_); }
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

 private:
  const TraceRange range_;
  StageTimes* times_;
  Stage stage_;
  int64_t start_;
};

}  // namespace millrace
