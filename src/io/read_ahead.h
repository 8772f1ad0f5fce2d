// ReadAhead: reads into given memory, in a thread of its own and in the thread that waits for one of them.
//
// One thread copies a cached file no faster than it can; two copy nearly twice as fast, and the first waits
// for no disk. Invariant, under the lock: jobs are taken in order of their numbers; only the thread that took
// a job touches its memory, until the job is done; all jobs are of one source. finish() takes waiting jobs
// itself, the one it wants first, so it never waits for a thread that has not begun.
// One thread at a time calls add(), finish() and drop(). The thread starts with the first job and serves one
// source after the other.
// Ends: the destructor waits for the read under way, which the source's close() cuts short; jobs not begun
// are dropped. Its owner is a consumer's reader, so it is never destroyed during add() or finish(). Not for
// use in a forked child, where in_child() is true: there it is to be leaked.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <span>

#include "core/thread_group.h"
#include "io/byte_source.h"

namespace millrace::io {

class ReadAhead {
 public:
  ReadAhead();
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // `source` and `into` stay until the job is finished or dropped. Returns the job's number; they count
  // from 1. Large jobs are divided, so that two threads can share one. Throws Error(invalid_argument) while
  // jobs of another source are not finished.
  int64_t add(const ByteSource& source, int64_t offset, std::span<uint8_t> into);
  // Returns when all jobs up to this one are done. Throws what the first of them that failed threw, once.
  void finish(int64_t job);
  // Forgets the jobs of this source; when it returns, nobody touches their memory any more.
  void drop(const ByteSource& source);

  bool in_child() const;

 private:
  struct Job {
    const ByteSource* source = nullptr;
    int64_t offset = 0;
    std::span<uint8_t> into;
    bool done = false;
    std::exception_ptr error;
  };

  void run();
  Job* take();
  void read(Job& job, std::unique_lock<std::mutex>& lock);

  const uint64_t generation_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable work_, done_;
  std::deque<Job> jobs_;  // those not finished; a deque's elements stay where they are
  int64_t first_ = 1;     // number of jobs_.front()
  size_t taken_ = 0;      // so many at the front are taken or done
  bool ends_ = false, started_ = false;

  core::ThreadGroup threads_;  // the last member: joined before anything it uses goes
};

}  // namespace millrace::io
