// TurnGate: limits how many workers do numbered tasks at a time, in any process: its state is one word, which
// may lie in memory that processes share.
//
// Tasks are numbered from 0 in the order in which they are handed to workers. Task n may begin when n <
// allowed, where allowed is the number of tasks ended by all workers, plus the limit.
// Invariant: each task ends at most once, and only after it began; so of the tasks that began at most `limit`
// have not ended. Numbers are compared by their distance, so they may pass 2^32, as long as tasks on their
// way are fewer than 2^31.
// No worker waits for ever: the first task not ended may always begin, if the limit is at least 1; its worker
// must do it before any other. The task of a worker that dies never ends: then its loader calls open().
// A lower limit only makes later tasks wait; it interrupts none.
// Relaxed order is enough: the word alone decides, and publishes no other memory; batches travel through the
// workers' pipes or queues.
// Threads: only the owner calls set_limit(), open() and close(), from one thread at a time; any worker of any
// process calls wait() and end(). Cost: a load for wait() when the task may begin; a system call for end()
// and changes.
// Ends: with its memory; no thread may wait then.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace millrace::core {

class TurnGate {
 public:
  struct State {  // as fresh pages have it: nothing may begin
    std::atomic<uint32_t> allowed{0};
    std::atomic<uint32_t> closed{0};
  };

  explicit TurnGate(std::shared_ptr<State> state);
  static TurnGate in_own_memory();

  void set_limit(int limit);  // at least 1, else Error(invalid_argument); no effect after open()
  void open();                // everything may begin, for good
  void close();               // nothing is to begin any more: wait() returns at once

  // Waits until task `number` may begin; false after `timeout_ns`, or when the gate is closed.
  bool wait(uint32_t number, int64_t timeout_ns) const;
  bool closed() const;
  void end();  // of one task that began

 private:
  void add(uint32_t difference);

  std::shared_ptr<State> state_;
  uint32_t limit_ = 0;  // the owner's
  bool open_ = false;
};

}  // namespace millrace::core
