// ReadAhead: reads of one source into given memory, by a thread of its own and by whoever waits for one of them.
//
// One thread copies a cached file no faster than it can; two copy nearly twice as fast, and the first waits for no disk.
// Invariant, under the lock: a job is waiting, taken or done, in order of its number; only who took it touches its memory. finish()
// takes waiting jobs itself, the one it wants first, so it never waits for a thread that has not begun.
// add() and finish() from one thread. Ends: the destructor waits for the read under way; jobs not begun are dropped. Not for use in a
// forked child, where in_child() is true: there it is to be leaked.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>

#include "core/thread_group.h"
#include "io/byte_source.h"

namespace millrace {

class ReadAhead {
 public:
  explicit ReadAhead(std::shared_ptr<const ByteSource> source);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // `into` stays writable until the job is finished, or this ends. Returns the job's number; they count from 1.
  int64_t add(int64_t offset, std::span<uint8_t> into);
  // Returns when all jobs up to this one are done. Throws what the first of them that failed threw, once.
  void finish(int64_t job);

  bool in_child() const;

 private:
  enum class Stage : uint8_t { waiting, taken, done };
  struct Job {
    int64_t offset = 0;
    std::span<uint8_t> into;
    Stage stage = Stage::waiting;
    std::exception_ptr error;
  };

  void run();
  Job* take_first();
  void read(Job& job, std::unique_lock<std::mutex>& lock);

  const std::shared_ptr<const ByteSource> source_;
  const uint64_t generation_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable work_, done_;
  std::deque<Job> jobs_;  // those not finished; a deque's elements stay where they are
  int64_t first_ = 1;     // number of jobs_.front()
  bool ends_ = false;

  ThreadGroup threads_;  // the last member: joined before anything it uses goes
};

}  // namespace millrace
