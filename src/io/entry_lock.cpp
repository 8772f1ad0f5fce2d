#include "io/entry_lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#include <mutex>
#include <unordered_set>

#include "core/fork_guard.h"

namespace millrace::io {
namespace {

struct Held {
  std::mutex mutex;  // held across fork(), so that the child finds the set whole
  std::unordered_set<int> fds;
};

// Descriptors of all locks of this process. Never destroyed: a lock may end after static objects have. Made
// when the library is loaded, not at first use: a child forked while a thread is at its first use would wait
// for that thread's initialisation for ever.
Held& held = *new Held;

[[maybe_unused]] const int at_forks = pthread_atfork([] { held.mutex.lock(); }, [] { held.mutex.unlock(); },
                                                     [] {
                                                       for (const int fd : held.fds) ::close(fd);
                                                       held.fds.clear();
                                                       held.mutex.unlock();
                                                     });

}  // namespace

EntryLock::EntryLock(const std::string& map_path) : generation_(core::fork_generation()) {
  const std::lock_guard lock(held.mutex);  // so that no fork() comes between open() and insert()
  const int fd = ::open(map_path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  if (::flock(fd, LOCK_SH | LOCK_NB) != 0) {
    ::close(fd);
    return;
  }
  held.fds.insert(fd);
  fd_ = fd;
}

EntryLock::~EntryLock() {
  if (!is_held() || in_child()) return;
  const std::lock_guard lock(held.mutex);
  held.fds.erase(fd_);
  ::flock(fd_, LOCK_UN);  // a child that is being forked may have the descriptor still
  ::close(fd_);
}

bool EntryLock::in_child() const { return core::fork_generation() != generation_; }

}  // namespace millrace::io
