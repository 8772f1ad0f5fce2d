// ForkWitness: tells the parent when nobody is left of the children that it forked, their children included.
//
// A child can read the memory that it inherited until it ends or executes another program. A pipe or a pidfd
// answers another question: a daemon closes all descriptors and goes on reading, a pidfd knows nothing of
// grandchildren, and the handlers of fork() are told no pid. So the witness is memory itself: an empty shared
// file, mapped while the parent forks and then in the child alone. The kernel refuses to seal a file against
// writing (F_SEAL_WRITE: EBUSY) as long as any process has such a mapping, and mappings end with the memory
// that they are part of, however that ends: exit, SIGKILL, exec. vfork() and posix_spawn() copy no memory and
// are not counted. Asking is one system call (0.3 us), without a wait. No page is ever touched, so a witness
// costs a descriptor and an inode.
// Threads: one at a time.
// Ends: closes its descriptor; the child's mapping, a page of addresses, stays.
#pragma once

namespace millrace::core {

class ForkWitness {
 public:
  ForkWitness();  // is invalid when the system has no descriptor or no memory for it
  ~ForkWitness();
  ForkWitness(const ForkWitness&) = delete;
  ForkWitness& operator=(const ForkWitness&) = delete;

  bool valid() const { return fd_ >= 0; }

  // Before fork(), which may then be counted; false when there are no addresses. Not after nobody_left() said
  // so.
  bool appear();
  void disappear();  // after it, in the parent; not in the child

  // Of all children forked while it was there. Final once true: the witness cannot appear again.
  bool nobody_left();

 private:
  int fd_;
  void* mapping_ = nullptr;
};

}  // namespace millrace::core
