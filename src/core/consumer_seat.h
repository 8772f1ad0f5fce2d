// ConsumerSeat: lets an engine be closed by any thread, at any moment, beside the thread that is inside one
// of the consumer's calls.
//
// Invariant: only the sitting thread touches the consumer's data, and one thread sits at a time. A consumer's
// call sits as long as it lasts; close() marks first, so no call sits down after it, and the engine's own
// wake-up makes the call inside return.
//
// The shutdown of an engine with a seat, as its close() does it:
//   1. close() the seat (mark), then wake everybody under the engine's lock;
//   2. on the engine's own threads, or inside a call of this very thread (a Python callable of the user's, a
//      signal's handler): that is all; the destructor, which runs when no thread is inside, does the rest;
//   3. else last(): waits until the consumer has left its call, then joins and lets go. Several may come
//      here: each after the other.
// So a call never loses the memory that it uses, and a thread that waits in a call gets Error(unavailable).
// Step 3 waits for the consumer's current work: at most one sample, never a wait.
// In a forked child the seat may be taken for ever: ask fork_generation() first.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

namespace millrace::core {

class ConsumerSeat {
 public:
  // While it lives, this thread sits.
  class Sitting {
   public:
    Sitting(ConsumerSeat& seat, bool while_open) : seat_(seat), lock_(seat.mutex_) {
      if (while_open) seat.throw_if_closed();  // it may have been while this waited
      seat_.who_.store(std::this_thread::get_id());
    }
    ~Sitting() { seat_.who_.store(std::thread::id()); }
    Sitting(const Sitting&) = delete;
    Sitting& operator=(const Sitting&) = delete;

   private:
    ConsumerSeat& seat_;
    const std::lock_guard<std::mutex> lock_;
  };

  // A call of the consumer's. Throws Error(unavailable) once the seat is closed, and Error(invalid_argument)
  // inside a call of the same thread.
  Sitting sit();
  // For the thread that tears down.
  Sitting last() { return Sitting(*this, false); }

  void close() { closed_.store(true); }
  bool closed() const { return closed_.load(); }
  void throw_if_closed() const;  // Error(unavailable)
  bool holds_current() const { return who_.load() == std::this_thread::get_id(); }

 private:
  std::mutex mutex_;
  std::atomic<std::thread::id>
      who_{};  // the sitting thread; only the thread itself can find its own id here, so any order will do
  std::atomic<bool> closed_ = false;
};

}  // namespace millrace::core
