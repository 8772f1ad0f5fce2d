#include "trace/stage_clock.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace millrace::trace {

thread_local constinit StageClock* current_stage_clock = nullptr;

namespace {

thread_local std::shared_ptr<StageClock> attached;  // keeps what current_stage_clock points to
thread_local const char this_thread = 0;            // its address is the thread's own

// The clock belongs to the parent's thread, and may write into memory that is shared.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] {
  current_stage_clock = nullptr;
  static_cast<void>(new std::shared_ptr<StageClock>(std::move(attached)));
});

constexpr bool may_wait(Stage stage) {
  return stage == Stage::read || stage == Stage::idle || stage == Stage::wait || stage == Stage::step ||
         stage == Stage::ended;
}

int64_t thread_cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// One writer: no read-modify-write is needed. Release and acquire order a row's numbers against its version.
void put(std::atomic<int64_t>& counter, int64_t value) { counter.store(value, std::memory_order_release); }
void add(std::atomic<int64_t>& counter, int64_t value) {
  put(counter, counter.load(std::memory_order_relaxed) + value);
}

// Calls `read` until nobody wrote meanwhile. A writer that lost its CPU in the middle is waited for; one that
// was killed there leaves what it had written.
template <class Read>
void read_whole(const std::atomic<int64_t>& version, Read read) {
  constexpr int kSpins = 200, kMostTries = kSpins + 400;
  constexpr timespec kPause{0, 100'000};  // 40 ms in all
  for (int i = 0; i < kMostTries; ++i) {
    const int64_t before = version.load(std::memory_order_acquire);
    read();
    if (before % 2 == 0 && version.load(std::memory_order_relaxed) == before) return;
    if (i >= kSpins) nanosleep(&kPause, nullptr);
  }
}

class Writing {
 public:
  explicit Writing(std::atomic<int64_t>& version)
      : version_(version), before_(version.load(std::memory_order_relaxed) & ~int64_t{1}) {
    version_.store(before_ + 1, std::memory_order_relaxed);
  }
  ~Writing() { version_.store(before_ + 2, std::memory_order_release); }

 private:
  std::atomic<int64_t>& version_;
  const int64_t before_;
};

}  // namespace

const char* stage_name(Stage stage) {
  constexpr std::array<const char*, kStages> names{"read", "decode",   "transform", "collate", "sample",
                                                   "send", "idle",     "start",     "draw",    "wait",
                                                   "copy", "handover", "step",      "ended"};
  return names[static_cast<size_t>(stage)];
}

void StageRow::write_note(std::string_view text) {
  const Writing writing(note_version);
  text = text.substr(0, kNoteBytes);
  put(note_bytes, static_cast<int64_t>(text.size()));
  for (size_t i = 0; i * sizeof(uint64_t) < text.size(); ++i) {
    uint64_t word = 0;
    const std::string_view part = text.substr(i * sizeof word, sizeof word);
    std::memcpy(&word, part.data(), part.size());
    note[i].store(word, std::memory_order_release);
  }
}

std::string StageRow::read_note() const {
  std::string text;
  read_whole(note_version, [&] {
    text.resize(
        static_cast<size_t>(std::clamp<int64_t>(note_bytes.load(std::memory_order_acquire), 0, kNoteBytes)));
    for (size_t i = 0; i * sizeof(uint64_t) < text.size(); ++i) {
      const uint64_t word = note[i].load(std::memory_order_acquire);
      std::memcpy(text.data() + i * sizeof word, &word, std::min(sizeof word, text.size() - i * sizeof word));
    }
  });
  return text;
}

void StageRow::end_for_it(int64_t now) {
  const auto last = static_cast<size_t>(stage.load(std::memory_order_relaxed));
  if (born_ns.load(std::memory_order_relaxed) == 0 || last >= static_cast<size_t>(Stage::ended)) return;
  const Writing writing(version);
  add(wall_ns[last], std::max<int64_t>(0, now - since_ns.load(std::memory_order_relaxed)));
  put(since_ns, now);
  put(stage, static_cast<int64_t>(Stage::ended));
}

StageReading read_row(const StageRow& row) {
  StageReading result;
  int64_t since = 0;
  read_whole(row.version, [&] {
    result.born_ns = row.born_ns.load(std::memory_order_acquire);
    since = row.since_ns.load(std::memory_order_acquire);
    const int64_t stage = row.stage.load(std::memory_order_acquire);
    result.stage = static_cast<Stage>(std::clamp<int64_t>(stage, 0, static_cast<int64_t>(Stage::ended)));
    for (size_t i = 0; i < kStages; ++i) {
      result.wall_ns[i] = row.wall_ns[i].load(std::memory_order_acquire);
      result.cpu_ns[i] = row.cpu_ns[i].load(std::memory_order_acquire);
    }
  });
  result.until_ns = since;
  if (result.born_ns == 0 || result.stage == Stage::ended) return result;
  result.until_ns = std::max(since, base::now_ns());
  result.wall_ns[static_cast<size_t>(result.stage)] += result.until_ns - since;
  return result;
}

namespace {

std::shared_ptr<const void> own_row() { return std::make_shared<StageRow>(); }
StageRow& row_in(const std::shared_ptr<const void>& memory) {
  return *const_cast<StageRow*>(static_cast<const StageRow*>(memory.get()));
}

}  // namespace

StageClock::StageClock() : owner_(own_row()), row_(row_in(owner_)) {}
StageClock::StageClock(StageRow& row, std::shared_ptr<const void> owner)
    : owner_(std::move(owner)), row_(row) {}
StageClock::~StageClock() = default;

std::atomic<bool> StageClock::enabled_ = [] {
  const char* value = std::getenv("MILLRACE_PROFILE");
  return value == nullptr || std::string_view(value) != "0";
}();

std::shared_ptr<StageClock> StageClock::attach(Stage stage) {
  if (!enabled()) return nullptr;
  std::shared_ptr<StageClock> before = attached;
  attach_here();
  if (row_.born_ns.load(std::memory_order_relaxed) == 0) {
    const Writing writing(row_.version);
    stage_ = stage;
    since_ns_ = cpu_since_ns_ = base::now_ns();
    put(row_.born_ns, since_ns_);
    put(row_.since_ns, since_ns_);
    put(row_.stage, static_cast<int64_t>(stage));
  } else {
    enter(stage);
  }
  return before;
}

void StageClock::attach_here() {
  if (current_stage_clock != this) {
    attached = shared_from_this();
    current_stage_clock = this;
  }
  if (thread_ != &this_thread) {
    thread_ = &this_thread;
    cpu_base_ns_ = thread_cpu_ns();
    cpu_since_ns_ = base::now_ns();
    pending_ns_ = {};
  }
}

void StageClock::detach(std::shared_ptr<StageClock> before) {
  current_stage_clock = before.get();
  attached = std::move(before);
}

Stage StageClock::enter(Stage stage, int64_t now) {
  const Stage before = stage_;
  if (before == Stage::ended) return before;
  const bool own = thread_ == &this_thread,
             reads_cpu = now - cpu_since_ns_ >= kCpuEveryNs || stage == Stage::ended;
  int64_t cpu = 0;
  if (own &&
      reads_cpu) {  // before the stage begins: a thread often loses its CPU as it comes back from the system
    cpu = thread_cpu_ns();
    now = base::now_ns();
  }
  now = std::max(now, since_ns_);
  const int64_t spent = now - since_ns_;
  const auto last = static_cast<size_t>(before);
  pending_ns_[last] += spent;
  stage_ = stage;
  since_ns_ = now;
  const Writing writing(row_.version);
  add(row_.wall_ns[last], spent);
  put(row_.since_ns, now);
  put(row_.stage, static_cast<int64_t>(stage));
  if (reads_cpu) {
    cpu_since_ns_ = now;
    if (own)
      share_cpu(cpu);
    else
      pending_ns_ = {};  // ended by another thread
  }
  return before;
}

void StageClock::share_cpu(int64_t cpu) {
  int64_t left = std::max<int64_t>(0, cpu - cpu_base_ns_);
  cpu_base_ns_ = cpu;
  for (const bool waiting : {false, true}) {
    int64_t wall = 0;
    for (size_t i = 0; i < kStages; ++i)
      if (may_wait(static_cast<Stage>(i)) == waiting) wall += pending_ns_[i];
    if (wall == 0) continue;
    const int64_t given = std::min(left, wall);
    left -= given;
    const double share = static_cast<double>(given) / static_cast<double>(wall);
    for (size_t i = 0; i < kStages; ++i)
      if (may_wait(static_cast<Stage>(i)) == waiting && pending_ns_[i] > 0)
        add(row_.cpu_ns[i], static_cast<int64_t>(static_cast<double>(pending_ns_[i]) * share));
  }
  pending_ns_ = {};
}

Stage StageClock::begin(Stage stage) {
  if (stage_ == Stage::ended || !enabled()) return Stage::ended;
  if (stage_ == Stage::step) {
    outer_ = attached;
    attach_here();
  }
  const Stage before = enter(stage);
  if (before == Stage::step) {
    entered_ns_ = since_ns_;
    ready_ = -1;
    starting_ = stage == Stage::start;
  }
  return before;
}

void StageClock::leave(Stage before) {
  if (before == Stage::ended) return;
  enter(before);
  if (before != Stage::step) return;
  if (current_stage_clock == this) detach(std::exchange(outer_, nullptr));
  if (!starting_) keep_step();
  if (ends_) end();
}

void StageClock::keep_step() {
  const std::lock_guard lock(steps_mutex_);
  if (steps_.empty()) {
    int64_t waited = row_.wall_ns[static_cast<size_t>(Stage::wait)].load(std::memory_order_relaxed);
    for (size_t i = 0; i <= static_cast<size_t>(Stage::idle); ++i)
      waited += row_.wall_ns[i].load(std::memory_order_relaxed);
    first_wait_ns_.store(waited, std::memory_order_relaxed);
  }
  if (steps_.size() == kMostSteps) {
    steps_.pop_front();
    ++steps_before_;
  }
  steps_.push_back({entered_ns_, since_ns_, ready_});
}

void StageClock::restart() {
  if (!enabled()) return;
  {
    const std::lock_guard lock(steps_mutex_);
    steps_.clear();
    steps_before_ = 0;
  }
  const Writing writing(row_.version);
  for (size_t i = 0; i < kStages; ++i) {
    put(row_.wall_ns[i], 0);
    put(row_.cpu_ns[i], 0);
  }
  pending_ns_ = {};
  ends_ = false;
  first_wait_ns_.store(0, std::memory_order_relaxed);
  stage_ = Stage::step;
  since_ns_ = cpu_since_ns_ = base::now_ns();
  cpu_base_ns_ = thread_cpu_ns();
  thread_ = &this_thread;
  put(row_.born_ns, since_ns_);
  put(row_.since_ns, since_ns_);
  put(row_.stage, static_cast<int64_t>(stage_));
}

int64_t StageClock::steps_before() const {
  const std::lock_guard lock(steps_mutex_);
  return steps_before_;
}

std::deque<StageClock::Step> StageClock::steps() const {
  const std::lock_guard lock(steps_mutex_);
  return steps_;
}

}  // namespace millrace::trace
