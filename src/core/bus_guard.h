// Reading mapped files that somebody may cut short: a page behind the end is SIGBUS, which ends the process
// unless it is caught.
//
// guarded(body) runs body() and says whether it came through; if not, at which address it touched what is no
// longer there. A body is left in the middle, by a jump: it must own nothing (no allocations, locks or
// objects with destructors) and not throw. Costs about 0.5 us, so one call should copy many rows. Any thread;
// calls do not nest.
//
// Invariant: while a body runs, this thread's `active` points to where to jump, and the process's handler of
// SIGBUS is ours. Only a fault of a thread inside a body is ours to answer; every other goes to the handler
// that was there before, the default action included. Others may put their own handler on top at any time
// (torch does in worker processes, faulthandler in tests), so each call looks who has the signal, and takes
// it back with the newcomer behind itself. A newcomer that calls us in turn gets the default action, not a
// circle.
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
