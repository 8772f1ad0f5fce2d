// Affinity from sched_getaffinity, quotas from the cgroup files (cgroups(7), the kernel's cgroup-v2 and
// sched-bwc documents).
#include "core/cpu_budget.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "core/cgroup.h"

namespace millrace::core {
namespace {

int affinity_cpus() {
  // The kernel refuses a mask smaller than its own (EINVAL), so grow until it fits.
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    cpu_set_t* mask = CPU_ALLOC(static_cast<size_t>(cpus));
    if (mask == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cpus));
    const bool ok = ::sched_getaffinity(0, bytes, mask) == 0;
    const int count = ok ? CPU_COUNT_S(bytes, mask) : 0;
    const int code = errno;
    CPU_FREE(mask);
    if (ok) return std::max(1, count);
    if (code != EINVAL) break;
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// The limit that one cgroup folder sets, 0 for none: v2 has "cpu.max" ("150000 100000" or "max 100000"), v1
// two files.
double folder_quota(const std::string& folder, bool v2) {
  const std::string text =
      v2 ? first_line(folder + "/cpu.max")
         : first_line(folder + "/cpu.cfs_quota_us") + " " + first_line(folder + "/cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (std::sscanf(text.c_str(), "%lf %lf", &quota, &period) != 2) return 0;
  return quota > 0 && period > 0 ? quota / period : 0;
}

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

}  // namespace

double cgroup_cpu_quota(const std::string& proc_self) {
  double lowest = 0;
  const auto visit = [&lowest](const std::string& folder, bool v2) {
    const double quota = folder_quota(folder, v2);
    if (quota > 0 && (lowest == 0 || quota < lowest)) lowest = quota;
  };
  for_each_cgroup("cpu", visit, proc_self);
  return lowest;
}

CpuBudget cpu_budget(const CpuLimits& limits) {
  const std::string& text = limits.local_world_size;
  int ranks = 1;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), ranks);
  const bool valid = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && ranks > 0;
  if (!valid) ranks = 1;

  CpuBudget budget;
  double cpus = limits.affinity_cpus;
  if (limits.quota_cpus > 0) cpus = std::min(cpus, limits.quota_cpus);
  budget.cpus = cpus / ranks;
  // The sliver keeps 6 / 3 from becoming 1 when a quota is not an exact binary fraction.
  budget.threads = std::max(1, static_cast<int>(std::floor(budget.cpus + 1e-6)));

  budget.reason =
      rounded(budget.cpus) + " CPUs: " + std::to_string(limits.affinity_cpus) + " in the affinity mask, " +
      (limits.quota_cpus > 0 ? "a cgroup quota of " + rounded(limits.quota_cpus) : "no cgroup quota");
  if (!text.empty()) {
    budget.reason +=
        valid ? ", shared by " + std::to_string(ranks) + " ranks (LOCAL_WORLD_SIZE)"
              : ", LOCAL_WORLD_SIZE='" + text + "' ignored because it is not a positive whole number";
  }
  return budget;
}

CpuBudget cpu_budget() {
  const char* ranks = std::getenv("LOCAL_WORLD_SIZE");
  return cpu_budget({affinity_cpus(), cgroup_cpu_quota(), ranks ? ranks : ""});
}

}  // namespace millrace::core
