// TraceRange: a named stretch of a thread's time, for profilers that draw time lines. Costs one load while
// nobody asked for ranges.
//
// The sink is set for the whole process, by any thread, and never ends; a range goes to the sink that was
// there when it began.
#pragma once

#include <atomic>

namespace millrace::trace {

struct RangeSink {
  void (*begin)(const char* name) noexcept;  // ranges of a thread are nested
  void (*end)() noexcept;
};

inline std::atomic<const RangeSink*> range_sink{nullptr};

class TraceRange {
 public:
  explicit TraceRange(const char* name) : sink_(range_sink.load(std::memory_order_acquire)) {
    if (sink_ != nullptr) sink_->begin(name);
  }
  ~TraceRange() {
    if (sink_ != nullptr) sink_->end();
  }
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;

 private:
  const RangeSink* const sink_;
};

}  // namespace millrace::trace
