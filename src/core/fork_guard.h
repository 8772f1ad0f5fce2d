// fork_generation: tells whether this process is still the one in which an object was made.
//
// Remember the number when an object is made; compare it BEFORE touching any lock of that object. A forked
// child has none of the parent's threads, and a lock may have been copied while one of them held it: there
// the object must be left alone, and what it owns is leaked to the child's end. fork() bumps the number in
// the child; vfork() and posix_spawn() do not (no handler runs, and nothing of ours does before the exec).
// Any thread; one relaxed load.
#pragma once

#include <cstdint>

namespace millrace::core {

uint64_t fork_generation() noexcept;

}  // namespace millrace::core
