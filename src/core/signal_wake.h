// wake_on_signal: writes a byte into a descriptor whenever a signal comes, whatever the process is doing.
//
// The handler is native, so it also runs when an interpreter would not call its own: in a long call, or while
// it waits for a lock. It does one write(), which a handler may; then it calls the handler installed before,
// so none is lost. If there was none, the signal's default action is not done. A full descriptor drops the
// byte: its reader has one already.
// Threads: one at a time sets and unsets.
// Ends: unwake_on_signal() puts the earlier handler back, unless another was installed on top.
#pragma once

namespace millrace::core {

// Throws Error(invalid_argument) for a number that is no signal or cannot be caught. A second call for a
// signal changes its descriptor.
void wake_on_signal(int signal, int fd);

// Stops writing bytes for the signal; true: the earlier handler is back.
bool unwake_on_signal(int signal) noexcept;

}  // namespace millrace::core
