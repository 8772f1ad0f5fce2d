// cpu_budget: how many CPUs this process may really use, so that worker threads never outnumber them.
//
// The smallest of: the CPUs of the affinity mask; the cgroup CPU quota (v1 or v2, every level from this
// process's group to the root of the mount); both divided by LOCAL_WORLD_SIZE, the ranks that torchrun
// started on this machine. Costs a few small reads under /proc and /sys; never throws for what it finds there
// (an unreadable file is no limit). Any thread.
#pragma once

#include <string>

namespace millrace::core {

struct CpuBudget {
  double cpus = 1;     // the share as it is, 1.5 for instance
  int threads = 1;     // whole threads that fit into it, at least one
  std::string reason;  // a sentence: which limits there are
};

CpuBudget cpu_budget();

// The parts, so that tests can show them other machines.
struct CpuLimits {
  int affinity_cpus = 1;
  double quota_cpus = 0;         // 0: no quota
  std::string local_world_size;  // as in the environment; empty: not set
};
CpuBudget cpu_budget(const CpuLimits& limits);

// The cgroup quota in CPUs, 0 when there is none. `proc_self` holds the files `cgroup` and `mountinfo`.
double cgroup_cpu_quota(const std::string& proc_self = "/proc/self");

}  // namespace millrace::core
