// memory_budget: how much memory this process may still take before the system kills a process for it.
//
// The smallest of the machine's available memory and the rest of each memory cgroup above this process: its
// limit less its use, v1 and v2, counting the page cache as free, because the kernel gives that up first. A
// full cgroup is not reported as an error: touching memory, mmap and fallocate alike end in SIGKILL. Costs a
// few reads under /proc and /sys (some 50 us). Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace millrace::core {

struct MemoryBudget {
  size_t available_bytes = SIZE_MAX;
  std::string limit;  // the name of the limit, for messages
};

MemoryBudget memory_budget(const std::string& proc = "/proc");

// How often the system has ended a process for want of memory: one of this process's own cgroup, or, where
// there is none, any.
struct MemoryKills {
  int64_t count = 0;
  std::string limit;  // the tightest limit on what the cgroup may hold, for people
};

MemoryKills memory_kills(const std::string& proc = "/proc");

// Throws Error(system, ENOMEM) when `bytes` more would not fit, and says what limits them.
void refuse_if_memory_is_short(size_t bytes, const std::string& what_for);

}  // namespace millrace::core
