// StageClock: where a thread's life goes. It is in exactly one stage at any moment, so its stages sum to its
// wall time.
//
// A thread that is attached to a clock has it as `current_stage_clock`; StageScope and StageTimer book there,
// and do nothing (one load) on a thread that has none. A scope goes back to the stage it found, so an
// inner scope that knows better splits the stage of an outer one.
// Invariant: a StageRow has one writer, the thread that its clock is attached to; any thread of any
// process may read it meanwhile: `version` is odd while the row is written, and a reader reads again
// until it has seen the same even number twice. A writer that was killed may leave it odd for ever; the
// reader then takes the values as they are, off by one stage's latest stretch. CPU time costs a system call
// (0.1 to 0.5 us), so it is asked for when kCpuEveryNs of wall time have passed since the last time, at the
// next change of stage. What passed since then is shared among the stages: first to those that compute, as
// far as their wall time reaches; the rest to those that may only have waited.
// Cost: a change of stage takes one reading of the clock and about ten stores, 40 ns.
// Ends: end() or the destructor.
// Fork: a child is attached to nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace millrace::trace {

// Stages up to `idle` are those of threads that make batches. The rest is the consumer's; its thread may make
// batches, too.
enum class Stage : uint8_t {
  read,
  decode,
  transform,
  collate,
  sample,
  send,
  idle,
  start,
  draw,
  wait,
  copy,
  handover,
  step,
  ended,
  count
};
inline constexpr size_t kStages = static_cast<size_t>(Stage::count);

const char* stage_name(Stage stage);

// What a clock has counted, in memory that may be shared by processes. All zero: nobody has begun.
struct StageRow {
  static constexpr size_t kNoteBytes = 3584;
  std::atomic<int64_t> version{0};
  std::atomic<int64_t> born_ns{0}, since_ns{0}, stage{0};  // since when it is in `stage`
  std::array<std::atomic<int64_t>, kStages> wall_ns{}, cpu_ns{};
  std::atomic<int64_t> made{0};  // batches that were answered
  // A text about this thread that another one writes (what its stack looked like); one writer.
  std::atomic<int64_t> note_version{0}, note_bytes{0};
  std::array<std::atomic<uint64_t>, kNoteBytes / sizeof(uint64_t)> note{};

  void write_note(std::string_view text);  // cut off after kNoteBytes
  std::string read_note() const;
  // For a thread that was killed, called by the thread that noticed: its last stage ends now.
  void end_for_it(int64_t now);
};
static_assert(sizeof(StageRow) <= 4096 && std::atomic<int64_t>::is_always_lock_free);
inline constexpr size_t kRowStride = 4096;  // rows of different threads share no page

struct StageReading {
  int64_t born_ns = 0;   // 0: not begun
  int64_t until_ns = 0;  // when it was read, or has ended
  Stage stage = Stage::ended;
  std::array<int64_t, kStages> wall_ns{},
      cpu_ns{};  // the stage it is in reaches until then, but for CPU time
};
StageReading read_row(const StageRow& row);

class StageClock;
extern thread_local constinit StageClock* current_stage_clock;

class StageClock : public std::enable_shared_from_this<StageClock> {
 public:
  static constexpr int64_t kCpuEveryNs = 200'000;
  static constexpr size_t kMostSteps = 65'536;

  StageClock();  // a row of its own
  explicit StageClock(StageRow& row,
                      std::shared_ptr<const void> owner = nullptr);  // `owner` keeps the row's memory
  ~StageClock();
  StageClock(const StageClock&) = delete;
  StageClock& operator=(const StageClock&) = delete;

  // False: MILLRACE_PROFILE=0 in the environment, or a measurement of what clocks cost. Nothing is attached
  // then.
  static bool enabled() { return enabled_.load(std::memory_order_relaxed); }
  static void enable(bool on) { enabled_ = on; }

  // The calling thread is counted by this clock from now on, in `stage`, and its first time begins its life.
  // Returns the clock that it was attached to, for detach().
  std::shared_ptr<StageClock> attach(Stage stage);
  static void detach(std::shared_ptr<StageClock> before = nullptr);

  // The attached thread: into `stage`; returns the one it comes from. Does nothing once ended.
  Stage enter(Stage stage) { return enter(stage, base::now_ns()); }
  Stage enter(Stage stage, int64_t now);
  void end() { enter(Stage::ended); }

  // The consumer's next(): attached from begin() to leave(), which gets what begin() returned. Calls may be
  // nested (an iterator over an iterator), and come from different threads, one at a time. What begins in
  // `step`, but for `start`, is a step; its times are kept. Nothing is done once ended, until restart().
  Stage begin(Stage stage);
  void leave(Stage before);
  void restart();                         // a new life, of which nothing is counted yet, in `step`
  void end_when_left() { ends_ = true; }  // by the outermost leave()
  int64_t first_wait_ns() const {
    return first_wait_ns_.load(std::memory_order_relaxed);
  }  // for batches, until the first step's end
  void note_ready(int count) { ready_ = count; }  // batches that were there when the present begin() came

  struct Step {
    int64_t enter_ns, leave_ns;
    int32_t ready;
  };
  int64_t steps_before() const;  // how many are no longer kept
  std::deque<Step> steps() const;

  void count_made() {
    row_.made.store(row_.made.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  StageRow& row() { return row_; }
  const StageRow& row() const { return row_; }
  StageReading read() const { return read_row(row_); }

 private:
  static std::atomic<bool> enabled_;

  void share_cpu(int64_t cpu);
  void keep_step();
  void attach_here();

  const std::shared_ptr<const void> owner_;
  StageRow& row_;

  // The attached thread's.
  Stage stage_ = Stage::ended;
  int64_t since_ns_ = 0;
  int64_t cpu_base_ns_ = -1, cpu_since_ns_ = 0;
  std::array<int64_t, kStages> pending_ns_{};  // wall time for which CPU time was not asked yet
  const void* thread_ = nullptr;               // the thread that has the CPU time cpu_base_ns_
  std::shared_ptr<StageClock> outer_;          // what begin() found attached
  int64_t entered_ns_ = 0;
  int32_t ready_ = -1;
  bool starting_ = false, ends_ = false;
  std::atomic<int64_t> first_wait_ns_{0};

  mutable std::mutex steps_mutex_;
  std::deque<Step> steps_;
  int64_t steps_before_ = 0;
};

// The thread is in `stage` as long as this lives.
class StageScope {
 public:
  explicit StageScope(Stage stage)
      : clock_(current_stage_clock), before_(clock_ ? clock_->enter(stage) : stage) {}
  ~StageScope() {
    if (clock_) clock_->enter(before_);
  }
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

 private:
  StageClock* const clock_;
  const Stage before_;
};

// A thread's whole run: attached when it begins, ended when it goes.
class StageLife {
 public:
  StageLife(const std::shared_ptr<StageClock>& clock, Stage stage) : clock_(clock) { clock_->attach(stage); }
  ~StageLife() {
    clock_->end();
    StageClock::detach();
  }
  StageLife(const StageLife&) = delete;
  StageLife& operator=(const StageLife&) = delete;

 private:
  const std::shared_ptr<StageClock> clock_;
};

}  // namespace millrace::trace
