// for_samples: the samples of a batch, shared by a few threads that live as long as the call.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "core/cpu_budget.h"
#include "core/thread_group.h"
#include "millrace/error.h"

namespace millrace::device::reference {

// body(i) for 0 <= i < count, by as many threads as samples of `groups` groups of pixels are worth and this
// process has CPUs for. `body` must not throw.
template <class Body>
void for_samples(int32_t count, int64_t groups, Body&& body) {
  constexpr int64_t kGroupsPerThread = 4096;  // below, starting a thread takes longer than its work
  static const int64_t cpus = core::cpu_budget().threads;
  const int64_t threads = std::min({cpus, int64_t{count}, 1 + count * groups / kGroupsPerThread});
  std::atomic<int32_t> next{0};
  const auto work = [&] {
    for (int32_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) body(i);
  };
  core::ThreadGroup helpers;
  try {
    for (int64_t t = 1; t < threads; ++t) helpers.start("millrace-pixels", work);
  } catch (const Error&) {  // no thread left: those that there are do it
  }
  work();
}

}  // namespace millrace::device::reference
