#include "core/end_with_process.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <ctime>

namespace millrace::core {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;  // thread-local memory of all libraries is part of it
constexpr int kTickMs = 1000;

void sleep_ms(int64_t ms) {
  timespec left{ms / 1000, ms % 1000 * 1'000'000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

struct Watched {
  pid_t process, starter;
  int fd, grace_ms;
};

void* run(void* argument) {
  const Watched watched = *static_cast<Watched*>(argument);
  if (watched.fd >= 0) {
    pollfd ended{watched.fd, POLLIN, 0};
    while (poll(&ended, 1, -1) < 0 && errno == EINTR) continue;
  } else {
    // A process number may be given to another process later, so the parent of this process is checked, too.
    while ((kill(watched.process, 0) == 0 || errno != ESRCH) && getppid() == watched.starter)
      sleep_ms(kTickMs);
  }
  sleep_ms(watched.grace_ms);
  kill(getpid(), SIGKILL);
  return nullptr;
}

}  // namespace

bool end_with_process(pid_t process, int grace_ms) {
  // Not local variables: they go when this returns. Never freed: the thread reads it at any time.
  auto* watched =
      new Watched{process, getppid(), static_cast<int>(syscall(SYS_pidfd_open, process, 0)), grace_ms};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // a new thread begins with its maker's
  pthread_t thread;
  int failure = pthread_create(&thread, &attributes, run, watched);
  if (failure == EINVAL) {  // the libraries have more
    pthread_attr_setstacksize(&attributes, kStackBytes * 16);
    failure = pthread_create(&thread, &attributes, run, watched);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (failure == 0) {
    pthread_setname_np(thread, "millrace-parent");
    return true;
  }
  if (watched->fd >= 0) close(watched->fd);
  delete watched;
  return false;
}

}  // namespace millrace::core
