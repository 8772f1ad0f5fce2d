// TurnGate: how many of the workers that take numbered tasks may work at a time, wherever they are: its state
// is one word, which may lie in memory that processes share.
//
// Tasks are numbered from 0 in the order in which they are handed to workers. Task n may begin when n <
// allowed, where allowed is the number of tasks that have ended, whoever's, plus the limit.
// Invariant: each task ends at most once, and only after it began; so of those that began at most `limit`
// have not ended. Numbers are compared by their distance, so they may pass 2^32, as long as tasks on their
// way are fewer than 2^31.
// Nobody waits for ever: of the tasks not ended the first may always begin, if the limit is at least 1; its
// worker must do it before any other. A worker that dies takes a task with it that never ends: then its
// loader calls open().
// The limit only changes what is waited for: lowered, it interrupts nobody.
// Why relaxed is enough: the word alone decides, and hands no other memory over; batches travel through the
// workers' pipes or queues.
// Threads: set_limit(), open() and close() by one at a time, the owner; wait() and end() by any worker of any
// process. Cost: wait() of one whose turn it is, a load; end() and changes, a system call.
// Ends: with its memory; nobody may wait then.
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

  void set_limit(int limit);  // at least 1, else Error(invalid_argument); nothing more behind open()
  void open();                // everything may begin, for good
  void close();               // nothing is to begin any more: wait() returns at once

  // Until task `number` may begin; false when that takes longer than `timeout_ns`, or the gate is closed.
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
