// cpu_budget: machines made of files, and the sentence that explains the number.
#include "core/cpu_budget.h"

#include <gtest/gtest.h>

#include "../scratch_folder.h"

namespace millrace::core {
namespace {

TEST(CpuBudget, ThisMachine) {
  const CpuBudget budget = cpu_budget();
  EXPECT_GE(budget.threads, 1);
  EXPECT_GT(budget.cpus, 0);
  EXPECT_NE(budget.reason.find("affinity"), std::string::npos) << budget.reason;
}

TEST(CpuBudget, SmallestLimitDividedByRanks) {
  EXPECT_EQ(cpu_budget({8, 0, ""}).threads, 8);
  EXPECT_EQ(cpu_budget({8, 6, ""}).threads, 6);
  EXPECT_EQ(cpu_budget({2, 6, ""}).threads, 2);
  EXPECT_EQ(cpu_budget({8, 6, "3"}).threads, 2);
  EXPECT_EQ(cpu_budget({8, 0, "3"}).threads, 2);
  EXPECT_EQ(cpu_budget({8, 0.5, ""}).threads, 1);
  EXPECT_DOUBLE_EQ(cpu_budget({8, 1.5, ""}).cpus, 1.5);
  EXPECT_EQ(cpu_budget({2, 0, "16"}).threads, 1);
  EXPECT_EQ(cpu_budget({3, 0.3 * 10, ""}).threads, 3);
}

TEST(CpuBudget, ReasonsAreSentences) {
  EXPECT_EQ(cpu_budget({8, 0, ""}).reason, "8 CPUs: 8 in the affinity mask, no cgroup quota");
  EXPECT_EQ(cpu_budget({8, 1.5, "2"}).reason,
            "0.75 CPUs: 8 in the affinity mask, a cgroup quota of 1.5, shared by 2 ranks (LOCAL_WORLD_SIZE)");
  for (const char* nonsense : {"0", "-2", "two", "2x", " 2", "99999999999"}) {
    const CpuBudget budget = cpu_budget({8, 0, nonsense});
    EXPECT_EQ(budget.threads, 8) << nonsense;
    EXPECT_NE(budget.reason.find("ignored"), std::string::npos) << budget.reason;
  }
}

class CgroupQuota : public testing::Test {
 protected:
  void mount(const std::string& root, const std::string& options) {
    mountinfo_ += "31 23 0:27 " + root + " " + folder_ / "sys" + " rw,nosuid shared:9 - " + options + "\n";
  }
  double quota(const std::string& cgroup) {
    folder_.write("proc/cgroup", cgroup);
    folder_.write("proc/mountinfo", "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + mountinfo_);
    return cgroup_cpu_quota(folder_ / "proc");
  }
  ScratchFolder folder_;
  std::string mountinfo_;
};

TEST_F(CgroupQuota, V2TakesTheTightestLevel) {
  mount("/", "cgroup2 cgroup2 rw");
  folder_.write("sys/a/cpu.max", "150000 100000\n");
  folder_.write("sys/a/b/cpu.max", "max 100000\n");
  folder_.write("sys/a/b/c/cpu.max", "400000 100000\n");
  EXPECT_DOUBLE_EQ(quota("0::/a/b/c\n"), 1.5);
  EXPECT_DOUBLE_EQ(quota("0::/\n"), 0);
  EXPECT_DOUBLE_EQ(quota("0::/elsewhere\n"), 0);
}

TEST_F(CgroupQuota, V2InsideAContainerSeesItsOwnRoot) {
  mount("/", "cgroup2 cgroup2 rw");
  folder_.write("sys/cpu.max", "200000 100000\n");
  EXPECT_DOUBLE_EQ(quota("0::/\n"), 2);
}

TEST_F(CgroupQuota, V1WithTheMountsRootStripped) {
  mount("/docker/abc", "cgroup cgroup rw,cpu,cpuacct");
  folder_.write("sys/cpu.cfs_quota_us", "300000\n");
  folder_.write("sys/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(quota("4:memory:/x\n3:cpuacct,cpu:/docker/abc\n"), 3);
}

TEST_F(CgroupQuota, V1WithoutALimit) {
  mount("/", "cgroup cgroup rw,cpu");
  folder_.write("sys/cpu.cfs_quota_us", "-1\n");
  folder_.write("sys/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(quota("3:cpu:/\n"), 0);
}

TEST_F(CgroupQuota, OtherControllersDoNotCount) {
  mount("/", "cgroup cgroup rw,cpuset");
  folder_.write("sys/cpu.cfs_quota_us", "100000\n");
  folder_.write("sys/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(quota("3:cpuset:/\n"), 0);
}

TEST_F(CgroupQuota, NothingThere) { EXPECT_DOUBLE_EQ(cgroup_cpu_quota(folder_ / "missing"), 0); }

TEST_F(CgroupQuota, GarbageIsNoLimit) {
  mount("/", "cgroup2 cgroup2 rw");
  folder_.write("sys/cpu.max", "lots\n");
  EXPECT_DOUBLE_EQ(quota("0::/\nbroken line\n"), 0);
  EXPECT_DOUBLE_EQ(quota("0::/../..\n"), 0);
}

}  // namespace
}  // namespace millrace::core
