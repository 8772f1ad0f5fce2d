// wait_interruptibly: the consumer's wait for a batch, without the GIL and in slices, so that Ctrl-C is seen.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "bindings.h"

namespace millrace::python {

inline constexpr int kSignalSliceMs = 50;  // how long Ctrl-C may go unseen

// Calls attempt(milliseconds) until its answer, a Status, is not `pending`. Throws what a signal's handler
// raises, and TimeoutError after `timeout` seconds; zero or less waits for ever.
template <class Attempt>
auto wait_interruptibly(double timeout, Attempt&& attempt) {
  const int64_t deadline = timeout > 0 ? base::now_ns() + static_cast<int64_t>(timeout * 1e9) : 0;
  for (;;) {
    int slice = kSignalSliceMs;
    if (deadline)
      slice =
          static_cast<int>(std::clamp<int64_t>((deadline - base::now_ns()) / 1'000'000, 0, kSignalSliceMs));
    using Status = decltype(attempt(0));
    Status status;
    {
      py::gil_scoped_release release;
      status = attempt(slice);
    }
    if (status != Status::pending) return status;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (deadline && base::now_ns() >= deadline) {
      PyErr_SetString(PyExc_TimeoutError, "no batch was ready in time");
      throw py::error_already_set();
    }
  }
}

}  // namespace millrace::python
