#include "core/bus_guard.h"

#include <pthread.h>
#include <ucontext.h>

#include <csetjmp>
#include <csignal>

#include <atomic>

namespace millrace::core::bus_guard {
namespace {

struct Jump {
  sigjmp_buf back;
  const void* volatile at = nullptr;
};

// Per thread: null, the Jump of a body that runs, or `kForwarding`. No thread_local: in a library loaded
// later, its first use allocates, which a handler must not do.
pthread_key_t new_key() {
  pthread_key_t key;
  pthread_key_create(&key, nullptr);
  return key;
}
const pthread_key_t active = new_key();
const char kForwarding = 0;

// The handler that had the signal before ours. Never freed: another handler may be reading it. There is one
// for each newcomer, or for each thread that met a newcomer at once. `older` is the handler that this one
// replaced.
struct Before {
  struct sigaction action;
  const Before* older;
};
std::atomic<const Before*> before{nullptr};

void default_action(int signal) {
  struct sigaction fallback = {};
  fallback.sa_handler = SIG_DFL;
  sigaction(signal, &fallback, nullptr);
  // A fault comes again as soon as the handler returns; a signal sent by kill() does not.
  raise(signal);
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  void* const here = pthread_getspecific(active);
  const bool forwarding = here == &kForwarding;
  if (here != nullptr && !forwarding && info->si_code > 0) {
    auto* const jump = static_cast<Jump*>(here);
    pthread_setspecific(active, nullptr);
    jump->at = info->si_addr;
    // The jump leaves the handler: signals that its caller has blocked in it (the thread sanitizer does) must
    // not stay blocked.
    pthread_sigmask(SIG_SETMASK, &static_cast<const ucontext_t*>(context)->uc_sigmask, nullptr);
    siglongjmp(jump->back, 1);
  }
  const Before* const known = before.load(std::memory_order_acquire);
  if (known == nullptr || forwarding) return default_action(signal);
  const struct sigaction* const next = &known->action;
  pthread_setspecific(active, &kForwarding);
  if (next->sa_flags & SA_SIGINFO)
    next->sa_sigaction(signal, info, context);
  else if (next->sa_handler == SIG_DFL || (next->sa_handler == SIG_IGN && info->si_code > 0))
    default_action(signal);
  else if (next->sa_handler != SIG_IGN)
    next->sa_handler(signal);
  pthread_setspecific(active, here);
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == on_bus_error;
}

void put_behind_us(const struct sigaction& action) {
  auto* const newest = new Before{action, before.load(std::memory_order_relaxed)};
  while (!before.compare_exchange_weak(newest->older, newest, std::memory_order_release)) {
  }
}

// Two threads may do this at once: both put the same handler after ours, or find ours installed.
void take_signal() {
  struct sigaction present;
  sigaction(SIGBUS, nullptr, &present);
  if (is_ours(present)) return;
  put_behind_us(present);
  struct sigaction ours = {}, replaced;
  ours.sa_sigaction = on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGBUS, &ours, &replaced);
  const bool changed = replaced.sa_flags != present.sa_flags || replaced.sa_sigaction != present.sa_sigaction;
  if (changed && !is_ours(replaced)) put_behind_us(replaced);
}

}  // namespace

bool run(void (*body)(const void*), const void* context, const void** at) {
  take_signal();
  Jump jump;
  if (sigsetjmp(jump.back, 0) != 0) {
    *at = jump.at;
    return false;
  }
  pthread_setspecific(active, &jump);
  // Nothing of the body may be moved out of the guarded stretch.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  body(context);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  pthread_setspecific(active, nullptr);
  return true;
}

}  // namespace millrace::core::bus_guard
