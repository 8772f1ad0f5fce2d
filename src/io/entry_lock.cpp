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

// Descriptors of all locks of this process. Never destroyed: a lock may end after static objects have.
struct Held {
  std::mutex mutex;  // held across fork(), so that the child finds the set whole
  std::unordered_set<int> fds;
};

Held& held() {
  static Held* const all = [] {
    auto* const made = new Held;
    pthread_atfork([] { held().mutex.lock(); }, [] { held().mutex.unlock(); },
                   [] {
                     for (const int fd : held().fds) ::close(fd);
                     held().fds.clear();
                     held().mutex.unlock();
                   });
    return made;
  }();
  return *all;
}

}  // namespace

EntryLock::EntryLock(const std::string& map_path) : generation_(core::fork_generation()) {
  Held& all = held();
  const std::lock_guard lock(all.mutex);  // opened and known at once, whoever forks when
  const int fd = ::open(map_path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  if (::flock(fd, LOCK_SH | LOCK_NB) != 0) {
    ::close(fd);
    return;
  }
  all.fds.insert(fd);
  fd_ = fd;
}

EntryLock::~EntryLock() {
  if (!is_held() || in_child()) return;
  Held& all = held();
  const std::lock_guard lock(all.mutex);
  all.fds.erase(fd_);
  ::flock(fd_, LOCK_UN);  // a child that is being forked may have the descriptor still
  ::close(fd_);
}

bool EntryLock::in_child() const { return core::fork_generation() != generation_; }

}  // namespace millrace::io
