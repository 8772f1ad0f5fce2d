// end_with_process: this process ends, whatever it is doing, soon after another one has ended: worker
// processes with their parent.
//
// A thread waits for a descriptor of that process (pidfd; without those, it looks once a second). Then the
// process has `grace_ms` to end by itself, and gets SIGKILL: no other signal ends a thread that holds the
// interpreter's lock in a long call, and nobody is left who would want what it computes. PR_SET_PDEATHSIG is
// another thing: it kills when the thread that forked ends, and a loader may be made in a thread that ends
// before it; and the parent of a process that a fork server has forked is that server. The thread blocks all
// signals, allocates nothing and takes no lock, so a fork at any moment finds nothing half done. It does not
// exist in forked children: what user code forks is the user's. One call per process is enough.
// Ends: with the process.
#pragma once

#include <sys/types.h>

namespace millrace::core {

// False: the system has no thread for it, and nothing was changed. When `process` has ended already, the
// grace begins at once.
bool end_with_process(pid_t process, int grace_ms);

}  // namespace millrace::core
