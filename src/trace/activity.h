// Activity: what a thread is doing at this moment, to explain why no batch comes out.
//
// The thread that does the work is the only writer: begin() names the sample, step() the work on it, and
// end() says that there is none. A reader on any thread gets all fields of one moment: a counter is odd while
// they change. A reader that sees a new field has acquired all stores before it. So the counter, read last,
// has moved on, and the reader looks again. Cost: one reading of the clock and six stores for each step.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace millrace::trace {

enum class Doing : uint8_t {
  nothing,
  reading,
  making
};  // reading: up to the header and the draws; making: decoding and transforms

class Activity {
 public:
  struct Moment {
    Doing doing = Doing::nothing;
    int64_t index = -1;     // of the sample
    int64_t since_ns = 0;   // now_ns() when this step began
    int64_t sample_ns = 0;  // and when its sample did
  };

  void begin(int64_t index) {
    const int64_t now = base::now_ns();
    write(Doing::reading, index, now, now);
  }
  void step(Doing doing) {
    write(doing, index_.load(std::memory_order_relaxed), base::now_ns(),
          sample_ns_.load(std::memory_order_relaxed));
  }
  void end() { write(Doing::nothing, -1, base::now_ns(), 0); }

  Moment now() const {
    for (int attempt = 0; attempt < 100; ++attempt) {
      const uint32_t before = turn_.load(std::memory_order_acquire);
      const Moment moment{doing_.load(std::memory_order_acquire), index_.load(std::memory_order_acquire),
                          since_ns_.load(std::memory_order_acquire),
                          sample_ns_.load(std::memory_order_acquire)};
      if (before % 2 == 0 && turn_.load(std::memory_order_relaxed) == before) return moment;
    }
    return {};
  }

 private:
  void write(Doing doing, int64_t index, int64_t since, int64_t sample) {
    const uint32_t turn = turn_.load(std::memory_order_relaxed);
    turn_.store(turn + 1, std::memory_order_relaxed);
    doing_.store(doing, std::memory_order_release);
    index_.store(index, std::memory_order_release);
    since_ns_.store(since, std::memory_order_release);
    sample_ns_.store(sample, std::memory_order_release);
    turn_.store(turn + 2, std::memory_order_release);
  }

  std::atomic<uint32_t> turn_{0};
  std::atomic<Doing> doing_{Doing::nothing};
  std::atomic<int64_t> index_{-1}, since_ns_{0}, sample_ns_{0};
};

// While it lives, the thread works on one sample.
class ActiveSample {
 public:
  ActiveSample(Activity& activity, int64_t index) : activity_(activity) { activity_.begin(index); }
  ~ActiveSample() { activity_.end(); }
  ActiveSample(const ActiveSample&) = delete;
  ActiveSample& operator=(const ActiveSample&) = delete;
  void makes() { activity_.step(Doing::making); }

 private:
  Activity& activity_;
};

}  // namespace millrace::trace
