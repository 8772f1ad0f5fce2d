#include "core/signal_wake.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "millrace/error.h"

namespace millrace::core {
namespace {

constexpr int kSignals = 65;

struct Woken {
  std::atomic<int> fd{-1};
  struct sigaction before = {};
  bool installed = false;
};

std::array<Woken, kSignals> woken;  // what the handler reads is written before it is installed, or atomic

void handle(int signal, siginfo_t* info, void* context) {
  const int kept = errno;
  const Woken& entry = woken[static_cast<size_t>(signal)];
  if (const int fd = entry.fd.load(std::memory_order_relaxed); fd >= 0) {
    const char byte = static_cast<char>(signal);
    [[maybe_unused]] const ssize_t written = ::write(fd, &byte, 1);
  }
  errno = kept;
  if ((entry.before.sa_flags & SA_SIGINFO) != 0) {
    if (entry.before.sa_sigaction != nullptr) entry.before.sa_sigaction(signal, info, context);
  } else if (entry.before.sa_handler != SIG_DFL && entry.before.sa_handler != SIG_IGN) {
    entry.before.sa_handler(signal);
  }
}

bool is_ours(int signal) {
  struct sigaction now = {};
  return ::sigaction(signal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
         now.sa_sigaction == handle;
}

}  // namespace

void wake_on_signal(int signal, int fd) {
  if (signal < 1 || signal >= kSignals)
    throw Error(ErrorKind::invalid_argument,
                std::to_string(signal) + " is no signal; use one of the module signal, such as SIGUSR1");
  Woken& entry = woken[static_cast<size_t>(signal)];
  entry.fd = fd;
  if (entry.installed && is_ours(signal)) return;
  struct sigaction now = {};
  const bool known = ::sigaction(signal, nullptr, &now) == 0;
  const bool nobody =
      (now.sa_flags & SA_SIGINFO) == 0 && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN);
  if (known && entry.installed && !nobody) return;  // somebody came on top, and may call ours
  entry.before = now;
  struct sigaction ours = {};
  ours.sa_sigaction = handle;
  // Without a handler before, system calls go on as if nothing had been; with one, as its owner wants it.
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | (nobody ? SA_RESTART : now.sa_flags & SA_RESTART);
  sigemptyset(&ours.sa_mask);
  if (!known || ::sigaction(signal, &ours, nullptr) != 0) {
    entry.fd = -1;
    throw Error(ErrorKind::invalid_argument, "signal " + std::to_string(signal) + " cannot be caught (" +
                                                 std::strerror(errno) + "); use SIGUSR1 or SIGUSR2");
  }
  entry.installed = true;
}

bool unwake_on_signal(int signal) noexcept {
  if (signal < 1 || signal >= kSignals) return false;
  Woken& entry = woken[static_cast<size_t>(signal)];
  entry.fd = -1;
  if (!entry.installed || !is_ours(signal)) return false;
  entry.installed = false;
  return ::sigaction(signal, &entry.before, nullptr) == 0;
}

}  // namespace millrace::core
