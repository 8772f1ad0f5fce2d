// Affinity from sched_getaffinity, quotas from the cgroup files (cgroups(7), the kernel's cgroup-v2 and sched-bwc documents).
#include "core/cpu_budget.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace millrace {
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

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool contains(const std::string& comma_list, const char* word) {
  const auto words = split(comma_list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The limit that one cgroup folder sets, 0 for none: v2 has "cpu.max" ("150000 100000" or "max 100000"), v1 two files.
double folder_quota(const std::string& folder, bool v2) {
  const std::string text =
      v2 ? first_line(folder + "/cpu.max")
         : first_line(folder + "/cpu.cfs_quota_us") + " " + first_line(folder + "/cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (std::sscanf(text.c_str(), "%lf %lf", &quota, &period) != 2) return 0;
  return quota > 0 && period > 0 ? quota / period : 0;
}

// Where a hierarchy is mounted, and which of its folders the mount shows as its root.
struct Mount {
  std::string root, point;
  bool v2 = false;
};

std::vector<Mount> cpu_mounts(const std::string& mountinfo_path) {
  std::vector<Mount> mounts;
  std::ifstream file(mountinfo_path);
  // proc(5): id parent major:minor ROOT POINT options [optional ...] - TYPE source SUPER-OPTIONS
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const auto left = split(line.substr(0, dash), ' '), right = split(line.substr(dash + 3), ' ');
    if (left.size() < 5 || right.size() < 3) continue;
    const bool v2 = right[0] == "cgroup2", v1 = right[0] == "cgroup" && contains(right[2], "cpu");
    if (v1 || v2) mounts.push_back({left[3], left[4], v2});
  }
  return mounts;
}

// This process's group in the hierarchy of `mount`, as the kernel names it; "/" when unknown.
std::string group_path(const std::string& cgroup_path, bool v2) {
  std::ifstream file(cgroup_path);
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (v2 ? controllers.empty() : contains(controllers, "cpu")) return line.substr(second + 1);
  }
  return "/";
}

double mount_quota(const Mount& mount, std::string group) {
  // A container's mount may show only the inside of its own group, while the kernel names it from outside.
  if (mount.root != "/" && group.rfind(mount.root, 0) == 0) group.erase(0, mount.root.size());
  if (group.find("..") != std::string::npos) group.clear();
  double lowest = 0;
  for (;;) {
    while (!group.empty() && group.back() == '/') group.pop_back();
    const double quota = folder_quota(mount.point + group, mount.v2);
    if (quota > 0 && (lowest == 0 || quota < lowest)) lowest = quota;
    if (group.empty()) return lowest;
    group.erase(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

}  // namespace

double cgroup_cpu_quota(const std::string& proc_self) {
  double lowest = 0;
  for (const Mount& mount : cpu_mounts(proc_self + "/mountinfo")) {
    const double quota = mount_quota(mount, group_path(proc_self + "/cgroup", mount.v2));
    if (quota > 0 && (lowest == 0 || quota < lowest)) lowest = quota;
  }
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

  budget.reason = rounded(budget.cpus) + " CPUs: " + std::to_string(limits.affinity_cpus) + " in the affinity mask, " +
                  (limits.quota_cpus > 0 ? "a cgroup quota of " + rounded(limits.quota_cpus) : "no cgroup quota");
  if (!text.empty()) {
    budget.reason += valid ? ", shared by " + std::to_string(ranks) + " ranks (LOCAL_WORLD_SIZE)"
                           : ", LOCAL_WORLD_SIZE='" + text + "' ignored because it is not a positive whole number";
  }
  return budget;
}

CpuBudget cpu_budget() {
  const char* ranks = std::getenv("LOCAL_WORLD_SIZE");
  return cpu_budget({affinity_cpus(), cgroup_cpu_quota(), ranks ? ranks : ""});
}

}  // namespace millrace
