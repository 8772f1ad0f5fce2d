// end_with_process: ends this process, whatever it is doing, soon after another one has ended: worker
// processes end with their parent.
//
// A thread waits for a descriptor of that process (pidfd; without those, it looks once a second). Then the
// process has `grace_ms` to end by itself, and gets SIGKILL: no other signal ends a thread that holds the
// interpreter's lock in a long call, and no process is left that wants its results. PR_SET_PDEATHSIG does not
// do the same: it kills when the thread that forked ends, and a loader may be made in a thread that ends
// before the loader; and the parent of a process that a fork server has forked is that server. The thread
// blocks all signals, allocates nothing and takes no lock, so a fork at any moment finds nothing half done.
// It does not exist in forked children: processes that user code forks are the user's. One call per process
// is enough.
// Ends: with the process.
#pragma once

#include <sys/types.h>

namespace millrace::core {

// False: the system has no thread for it, and nothing was changed. When `process` has ended already, the
// grace begins at once.
bool end_with_process(pid_t process, int grace_ms);

}  // namespace millrace::core
