#include "core/thread_group.h"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

#include "millrace/error.h"

namespace millrace::core {
namespace {

thread_local const ThreadGroup* group_of_this_thread = nullptr;

// A new thread inherits the mask of its maker: so no signal can fall in between.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int kept : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGPROF})
      sigdelset(&blocked, kept);
    pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

void ThreadGroup::start(const std::string& name, std::function<void()> body) {
  threads_.reserve(threads_.size() + 1);  // so that nothing throws once the thread runs
  try {
    const SignalsBlocked blocked;
    threads_.emplace_back([this, run = std::move(body)] {
      group_of_this_thread = this;
      run();
    });
  } catch (const std::system_error& error) {
    throw Error(
        ErrorKind::system,
        "cannot start worker thread " + std::to_string(threads_.size() + 1) + " (" + error.code().message() +
            "); use fewer workers or raise the limit on threads (ulimit -u, the container's pids limit)",
        {}, -1, error.code().value());
  }
  pthread_setname_np(threads_.back().native_handle(), name.substr(0, 15).c_str());
}

void ThreadGroup::join() {
  const std::lock_guard lock(joining_);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool ThreadGroup::holds_current() const { return group_of_this_thread == this; }

}  // namespace millrace::core
