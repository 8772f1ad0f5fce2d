// StackLooks: where the Python code of a thread is, looked at now and then; what a sampling profiler does,
// for the profile's stages.
//
// The main thread (a worker process has no other) looks at itself: a thread of ours ticks while a stretch is
// open, enter() to leave(), and asks the interpreter for a pending call, which notes code object and
// instruction of each frame, in C: no Python runs, nothing is switched, no signal is sent. A look is late
// while C code runs, and then finds the very call that made it late; the ticks that passed meanwhile are its
// weight, so code that holds the GIL for seconds counts for seconds. A look costs about 10 us, with what it
// does to the caches. Another thread is looked at with the GIL held (stack_of_thread): see
// python/millrace/_profiling/stacks.py.
//
// Threads: enter, leave, take and the look itself in the main thread; the ticking thread takes neither GIL
// nor references. `mutex_` guards what both touch.
// Invariant: at most one look is asked for; leave() under `mutex_` ends it, so nothing is asked of an
// interpreter that has gone on. Owner: the process, for ever; a forked child begins with one of its own, and
// leaks its parent's. pause() joins the thread.
#pragma once

#include "bindings.h"

#include <condition_variable>
#include <mutex>

#include "core/thread_group.h"

namespace millrace {
class StageClock;
}

namespace millrace::python {

using Frames = std::vector<std::pair<PyObject*, int>>;  // owned code objects and instruction offsets in
                                                        // bytes, innermost first

struct StackLook {
  double seconds = 0;  // the time that it represents
  double busy = 1;     // share of the wait for it in which the thread had a CPU: 0 when it was blocked
  Frames frames;
};

class StackLooks {
 public:
  static StackLooks& here();
  void enter();
  void leave();
  std::vector<StackLook> take();
  void pause();                // before a fork: the next enter() starts the thread again
  void pace(int64_t mean_ns);  // between two looks, for tests; 0: as ever

 private:
  StackLooks();
  void tick();
  void note(double busy, int64_t weight_ns, bool with_frames);
  static int look(void*);

  const uint64_t generation_;
  clockid_t cpu_clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  core::ThreadGroup thread_;
  bool open_ = false, stopping_ = false, asleep_ = false, asked_ = false;
  trace::StageClock* clock_ = nullptr;  // the main thread's, while a stretch is open
  int64_t pace_ns_ = 0;
  int64_t due_ns_ = 0;  // ticks since the last look
  int64_t asked_at_ = 0, cpu_at_ = 0;
  uint64_t random_;
  int64_t looks_ = 0;
  std::vector<StackLook> taken_;  // the main thread's
};

// Frames of a thread, `most` of them, up to the first with code in `ends` if they are `to_users`. Empty
// when it has none.
// Invariant: the caller has the GIL, and nothing that is done between the first frame and the last gives it
// up or runs Python code, so the thread does not run. That needs the collector to rest.
Frames frames_of(PyThreadState* thread, size_t most, bool to_users);

}  // namespace millrace::python
