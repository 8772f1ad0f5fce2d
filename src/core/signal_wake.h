// wake_on_signal: a byte into a descriptor whenever a signal comes, whatever the process is doing.
//
// The handler is native, so it runs also where an interpreter would not come to its own: in a long call, or
// behind a lock. It does what a handler may, one write(); then it calls the handler that was there before, so
// nobody's is lost. Where there was none, the signal's default is not done. A full descriptor drops the byte:
// whoever reads it has one already.
// Threads: set and unset from one at a time.
// Ends: unwake_on_signal() puts back what was there, unless somebody has come on top.
#pragma once

namespace millrace::core {

// Throws Error(invalid_argument) for a number that is no signal or cannot be caught. A second call for a
// signal changes its descriptor.
void wake_on_signal(int signal, int fd);

// The signal wakes nobody any more; true: what was there before is back.
bool unwake_on_signal(int signal) noexcept;

}  // namespace millrace::core
