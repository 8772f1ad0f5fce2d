// ThreadGroup: a fixed number of named threads that run one function and are joined at the end.
//
// The threads take no signals but those that report a fault or a profiler's tick: Ctrl-C belongs to the
// caller's threads, and no system call of a worker is interrupted. The function must return when its owner
// tells it to, by the owner's own means: join() and the destructor wait for that. start() belongs to the
// owner, before anybody joins; join() and holds_current() may be called by any thread, several at once. Not
// for use in a forked child, where the threads do not exist.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace millrace::core {

class ThreadGroup {
 public:
  ThreadGroup() = default;
  ~ThreadGroup() { join(); }
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  // Adds a thread that runs `body`, shown as `name` by ps and top (15 characters). Throws Error(system) when
  // the system has no thread left.
  void start(const std::string& name, std::function<void()> body);
  // Not from one of its own threads: see holds_current().
  void join();
  // Whether the caller is one of these threads.
  bool holds_current() const;
  size_t size() const { return threads_.size(); }  // the owner's, beside no join()

 private:
  std::mutex joining_;  // one joins at a time, the others find nothing left
  std::vector<std::thread> threads_;
};

// Deletes an owner of threads when its last user is one of these threads and has told them to end: a new
// thread waits for them. If the system has no thread left, the owner stays in memory.
template <class T>
void delete_on_another_thread(std::unique_ptr<T> owner) noexcept {
  T* const last = owner.release();
  try {
    std::thread([last] { delete last; }).detach();
  } catch (const std::exception&) {
  }
}

}  // namespace millrace::core
