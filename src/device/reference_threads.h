// for_samples: the samples of a batch, shared by a few threads that live as long as the call.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace millrace::reference {

// body(i) for 0 <= i < count, by as many threads as samples of `groups` groups of pixels are worth. `body` must not throw.
template <class Body>
void for_samples(int32_t count, int64_t groups, Body&& body) {
  constexpr int64_t kGroupsPerThread = 4096;  // below, starting a thread takes longer than its work
  const auto worth = static_cast<unsigned>(std::min<int64_t>(count, 1 + count * groups / kGroupsPerThread));
  const unsigned threads = std::min(worth, std::max(1u, std::thread::hardware_concurrency()));
  std::atomic<int32_t> next{0};
  const auto work = [&] {
    for (int32_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) body(i);
  };
  std::vector<std::jthread> helpers;
  for (unsigned t = 1; t < threads; ++t) helpers.emplace_back(work);
  work();
}

}  // namespace millrace::reference
