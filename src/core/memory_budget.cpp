#include "core/memory_budget.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fstream>

#include "core/cgroup.h"
#include "millrace/error.h"

namespace millrace::core {
namespace {

// SIZE_MAX for text that is no number ("max", or no file).
size_t number(const std::string& text) {
  size_t value = SIZE_MAX;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() ? value : SIZE_MAX;
}

// The value of `key` in a file of "key value" lines; 0 when absent.
size_t entry(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string name;
  for (size_t value = 0; file >> name; file.ignore(256, '\n'))
    if (name == key) return file >> value ? value : 0;
  return 0;
}

// SIZE_MAX where there is none, which v1 writes as a huge number.
size_t limit_of(const std::string& folder, bool v2) {
  const size_t limit = number(first_line(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes")));
  return limit >= size_t{1} << 60 ? SIZE_MAX : limit;
}

size_t left_in(const std::string& folder, bool v2) {
  const size_t limit = limit_of(folder, v2);
  const size_t used = number(first_line(folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes")));
  if (limit == SIZE_MAX || used == SIZE_MAX) return SIZE_MAX;
  const std::string stat = folder + "/memory.stat", prefix = v2 ? "" : "total_";
  const size_t cache = entry(stat, prefix + "inactive_file") + entry(stat, prefix + "active_file");
  return limit - std::min(limit, used - std::min(used, cache));
}

std::string megabytes(size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

MemoryBudget memory_budget(const std::string& proc) {
  MemoryBudget budget;
  if (const size_t kib = entry(proc + "/meminfo", "MemAvailable:"); kib > 0)
    budget = {kib << 10, "the machine's memory"};
  const auto visit = [&budget](const std::string& folder, bool v2) {
    const size_t left = left_in(folder, v2);
    if (left < budget.available_bytes) budget = {left, "the memory limit of cgroup " + folder};
  };
  for_each_cgroup("memory", visit, proc + "/self");
  return budget;
}

MemoryKills memory_kills(const std::string& proc) {
  size_t tightest = entry(proc + "/meminfo", "MemTotal:") << 10;
  MemoryKills kills{-1, "the machine has " + megabytes(tightest)};
  const auto visit = [&](const std::string& folder, bool v2) {
    const std::string events = folder + (v2 ? "/memory.events" : "/memory.oom_control");
    if (kills.count < 0 && std::ifstream(events))
      kills.count = static_cast<int64_t>(entry(events, "oom_kill"));
    if (const size_t limit = limit_of(folder, v2); limit < tightest) {
      tightest = limit;
      kills.limit = "cgroup " + folder + " may hold " + megabytes(limit);
    }
  };
  for_each_cgroup("memory", visit, proc + "/self");
  if (kills.count < 0) kills.count = static_cast<int64_t>(entry(proc + "/vmstat", "oom_kill"));
  return kills;
}

void refuse_if_memory_is_short(size_t bytes, const std::string& what_for) {
  const MemoryBudget budget = memory_budget();
  if (bytes <= budget.available_bytes) return;
  throw Error(ErrorKind::system,
              what_for + " needs " + megabytes(bytes) + " more, but " + budget.limit + " leaves only " +
                  megabytes(budget.available_bytes) +
                  "; use a smaller batch_size, prefetch_factor or num_workers, or raise the limit",
              {}, -1, ENOMEM);
}

}  // namespace millrace::core
