#include "stack_looks.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <unordered_set>

#include "base/clock.h"
#include "core/fork_guard.h"
#include "millrace/error.h"
#include "trace/stage_clock.h"

namespace millrace::python {

bool ask_main_thread(int (*call)(void*));  // pending_call.cpp

namespace {

constexpr size_t kMostFrames = 48, kMostLines = 1000;
constexpr size_t kMostLooks = 4096;  // that nobody has taken
constexpr int64_t kQuickLooks =
    20;  // at first, so that a run of half a second has enough of them; after them the gap grows
constexpr int64_t kQuickGapNs = 5'000'000, kGapNs = 25'000'000;  // means
constexpr int64_t kPromptNs = 50'000;                            // a thread that answers so soon was running
constexpr int kQuietTicks =
    10;  // outside of stretches, then the thread sleeps: to wake it costs more than they

// Code of ours that calls the user's: stacks end there. Guarded by the GIL.
std::unordered_set<PyObject*>& ends() {
  static auto* const codes = new std::unordered_set<PyObject*>;
  return *codes;
}

int64_t cpu_ns(clockid_t clock) {
  timespec time{};
  return clock_gettime(clock, &time) == 0 ? time.tv_sec * 1'000'000'000LL + time.tv_nsec : 0;
}

int offset_of(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return PyFrame_GetLasti(frame);
#else
  return frame->f_lasti * 2;
#endif
}

// What native code books itself needs no looks.
bool is_pythons(int stage) {
  return stage == static_cast<int>(trace::Stage::sample) || stage == static_cast<int>(trace::Stage::collate);
}

py::tuple to_tuple(const Frames& frames) {
  py::tuple tuple(frames.size());
  for (size_t i = 0; i < frames.size(); ++i) {
    tuple[i] = py::make_tuple(py::reinterpret_steal<py::object>(frames[i].first), frames[i].second);
  }
  return tuple;
}

// Before Python 3.12 any object that is made may start the collector, and its finalizers may let other
// threads go on: so that a frame which is about to be made into an object is gone. Held together with the
// GIL, from the first frame to the last.
class CollectorRests {
 public:
  CollectorRests() : was_on_(PyGC_Disable() != 0) {}
  ~CollectorRests() {
    if (was_on_) PyGC_Enable();
  }
  CollectorRests(const CollectorRests&) = delete;
  CollectorRests& operator=(const CollectorRests&) = delete;

 private:
  const bool was_on_;
};

// The list is walked with the GIL, without which no thread's state leaves it.
PyThreadState* first_thread() { return PyInterpreterState_ThreadHead(PyThreadState_Get()->interp); }

}  // namespace

Frames frames_of(PyThreadState* thread, size_t most, bool to_users) {
  const CollectorRests resting;
  Frames frames;
  PyFrameObject* frame = PyThreadState_GetFrame(thread);
  while (frame != nullptr) {
    PyObject* const code = reinterpret_cast<PyObject*>(PyFrame_GetCode(frame));
    frames.emplace_back(code, offset_of(frame));
    PyFrameObject* const outer =
        frames.size() == most || (to_users && ends().contains(code)) ? nullptr : PyFrame_GetBack(frame);
    Py_DECREF(frame);  // the thread's own reference remains
    frame = outer;
  }
  PyErr_Clear();  // there was no memory for a frame
  return frames;
}

StackLooks& StackLooks::here() {
  static StackLooks* looks = nullptr;  // made and exchanged with the GIL held
  if (looks == nullptr || looks->generation_ != core::fork_generation()) looks = new StackLooks;
  return *looks;
}

StackLooks::StackLooks()
    : generation_(core::fork_generation()), random_(static_cast<uint64_t>(base::now_ns()) | 1) {
  if (pthread_getcpuclockid(pthread_self(), &cpu_clock_) != 0) cpu_clock_ = CLOCK_THREAD_CPUTIME_ID;
}

void StackLooks::enter() {
  const std::lock_guard lock(mutex_);
  open_ = true;
  clock_ = trace::current_stage_clock;
  if (thread_.size() == 0) {
    stopping_ = false;
    try {
      thread_.start("millrace-looks", [this] { tick(); });
    } catch (const Error&) {  // no thread left: no looks, until the next stretch
    }
  } else if (asleep_) {
    changed_.notify_one();
  }
}

void StackLooks::leave() {
  int64_t weight = 0;
  {
    const std::lock_guard lock(mutex_);
    open_ = false;
    clock_ = nullptr;
    if (asked_) weight = std::exchange(due_ns_, 0);
    asked_ = false;
    looks_ += weight > 0;
  }
  if (weight > 0) note(1, weight, false);  // between the last call of the user's code and here
}

void StackLooks::pause() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

void StackLooks::pace(int64_t mean_ns) {
  const std::lock_guard lock(mutex_);
  pace_ns_ = mean_ns;
}

std::vector<StackLook> StackLooks::take() { return std::exchange(taken_, {}); }

void StackLooks::tick() {
  std::unique_lock lock(mutex_);
  int64_t last = base::now_ns();
  for (int quiet = 0; !stopping_; quiet = open_ ? 0 : quiet + 1) {
    if (quiet == kQuietTicks) {
      asleep_ = true;
      changed_.wait(lock, [this] { return open_ || stopping_; });
      asleep_ = false;
      last = base::now_ns();
      continue;
    }
    random_ ^= random_ << 13, random_ ^= random_ >> 7,
        random_ ^= random_ << 17;  // xorshift: a fixed rhythm could be the loop's own
    const int64_t mean =
        pace_ns_ > 0 ? pace_ns_ : std::clamp(kQuickGapNs * looks_ / kQuickLooks, kQuickGapNs, kGapNs);
    changed_.wait_for(
        lock,
        std::chrono::nanoseconds(mean / 2 + static_cast<int64_t>(random_ % static_cast<uint64_t>(mean))),
        [this] { return stopping_; });
    const int64_t now = base::now_ns();
    if (open_ && !stopping_ &&
        (clock_ == nullptr || is_pythons(clock_->row().stage.load(std::memory_order_relaxed)))) {
      due_ns_ += now - last;
      if (!asked_ && ask_main_thread(&look)) {
        asked_ = true;
        asked_at_ = now;
        cpu_at_ = cpu_ns(cpu_clock_);
      }
    }
    last = now;
  }
}

int StackLooks::look(void*) {
  StackLooks& looks = here();
  int64_t weight = 0;
  double busy = 1;
  {
    const std::lock_guard lock(looks.mutex_);
    if (!looks.asked_) return 0;  // the stretch has ended
    looks.asked_ = false;
    ++looks.looks_;
    weight = std::exchange(looks.due_ns_, 0);
    const int64_t waited = base::now_ns() - looks.asked_at_;
    const int64_t ran = cpu_ns(looks.cpu_clock_) - looks.cpu_at_;
    if (waited > kPromptNs) busy = std::min(1.0, static_cast<double>(ran) / static_cast<double>(waited));
  }
  looks.note(busy, weight, true);
  return 0;
}

void StackLooks::note(double busy, int64_t weight_ns, bool with_frames) {
  if (taken_.size() >= kMostLooks) return;
  taken_.push_back({static_cast<double>(weight_ns) * 1e-9, std::max(0.0, busy), {}});
  if (with_frames) taken_.back().frames = frames_of(PyThreadState_Get(), kMostFrames, true);
}

void bind_stacks(py::module_& m) {
  m.def("stack_ends", [](const py::list& codes) {
    for (const py::handle code : codes) {
      if (!PyCode_Check(code.ptr())) throw py::type_error("stack_ends takes code objects");
      if (ends().insert(code.ptr()).second) code.inc_ref();
    }
  });
  m.def("stack_enter", [] { StackLooks::here().enter(); });
  m.def("stack_leave", [] { StackLooks::here().leave(); });
  m.def("stack_pause", [] {
    py::gil_scoped_release release;
    StackLooks::here().pause();
  });
  m.def("stack_take", [] {
    py::list list;
    for (const StackLook& look : StackLooks::here().take())
      list.append(py::make_tuple(look.seconds, look.busy, to_tuple(look.frames)));
    return list;
  });
  m.def("stack_of_thread", [](unsigned long ident) {
    Frames frames;  // one that is about to start may have its starter's number, and has no frames yet
    for (PyThreadState* thread = first_thread(); thread != nullptr && frames.empty();
         thread = PyThreadState_Next(thread)) {
      if (thread->thread_id == ident) frames = frames_of(thread, kMostFrames, true);
    }
    return to_tuple(frames);
  });
  m.def("stacks_of_threads", [] {
    std::vector<std::pair<unsigned long, Frames>> threads;
    for (PyThreadState* thread = first_thread(); thread != nullptr; thread = PyThreadState_Next(thread)) {
      if (Frames frames = frames_of(thread, kMostLines, false); !frames.empty())
        threads.emplace_back(thread->thread_id, std::move(frames));
    }
    py::dict stacks;  // made after the list of threads is read: making it may let other threads go on
    for (const auto& [ident, frames] : threads) stacks[py::int_(ident)] = to_tuple(frames);
    return stacks;
  });
  m.def("stack_pace", [](double seconds) { StackLooks::here().pace(static_cast<int64_t>(seconds * 1e9)); });
}

}  // namespace millrace::python
