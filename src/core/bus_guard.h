// Reads mapped files that another program may cut short: reading a page past the end is SIGBUS, which ends
// the process unless it is caught.
//
// guarded(body) runs body() and says whether it finished; if not, `*at` is the address of the fault. A fault
// leaves the body in the middle, by a jump: it must own nothing (no allocations, locks or objects with
// destructors) and not throw. Costs about 0.5 us, so one call should copy many rows. Any thread; calls do not
// nest.
//
// Invariant: while a body runs, this thread's `active` points to where to jump, and the process's handler of
// SIGBUS is ours. Our handler answers only a fault of a thread inside a body; every other fault goes to the
// handler installed before, the default action included. Others may put their own handler on top at any time
// (torch does in worker processes, faulthandler in tests), so each call looks up the handler of the signal,
// and installs ours again with the newcomer after it. A newcomer that calls our handler in turn gets the
// default action, not a circle.
#pragma once

namespace millrace::core {

namespace bus_guard {
bool run(void (*body)(const void*), const void* context, const void** at);
}

template <class Body>
bool guarded(const Body& body, const void** at) {
  return bus_guard::run([](const void* context) { (*static_cast<const Body*>(context))(); }, &body, at);
}

}  // namespace millrace::core
