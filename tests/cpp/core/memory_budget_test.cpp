// memory_kills: machines made of files.
#include "core/memory_budget.h"

#include <gtest/gtest.h>

#include "../scratch_folder.h"

namespace millrace::core {
namespace {

class Kills : public testing::Test {
 protected:
  Kills() {
    folder_.write("proc/meminfo", "MemTotal: 4194304 kB\n");
    folder_.write("proc/vmstat", "pgfault 12\noom_kill 7\n");
  }
  MemoryKills kills(const std::string& cgroup, const std::string& type) {
    folder_.write("proc/self/cgroup", cgroup);
    folder_.write("proc/self/mountinfo", "31 23 0:27 / " + folder_ / "sys" + " rw shared:9 - " + type + "\n");
    return memory_kills(folder_ / "proc");
  }
  ScratchFolder folder_;
};

TEST_F(Kills, V2CountsItsOwnGroupAndNamesTheTightestLimit) {
  folder_.write("sys/a/memory.max", "536870912\n");
  folder_.write("sys/a/memory.events", "low 0\noom_kill 9\n");
  folder_.write("sys/a/b/memory.max", "max\n");
  folder_.write("sys/a/b/memory.events", "low 0\nhigh 0\nmax 4\noom 4\noom_kill 3\noom_group_kill 0\n");
  const MemoryKills found = kills("0::/a/b\n", "cgroup2 cgroup2 rw");
  EXPECT_EQ(found.count, 3);
  EXPECT_EQ(found.limit, "cgroup " + folder_ / "sys/a" + " may hold 512 MiB");
}

TEST_F(Kills, V1) {
  folder_.write("sys/a/memory.limit_in_bytes", "1073741824\n");
  folder_.write("sys/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  folder_.write("sys/memory.limit_in_bytes", "9223372036854771712\n");
  const MemoryKills found = kills("4:memory:/a\n", "cgroup cgroup rw,memory");
  EXPECT_EQ(found.count, 2);
  EXPECT_EQ(found.limit, "cgroup " + folder_ / "sys/a" + " may hold 1024 MiB");
}

TEST_F(Kills, WithoutAGroupTheMachineCounts) {
  const MemoryKills found = kills("0::/\n", "cgroup2 cgroup2 rw");
  EXPECT_EQ(found.count, 7);
  EXPECT_EQ(found.limit, "the machine has 4096 MiB");
  EXPECT_GE(memory_kills().count, 0);
}

}  // namespace
}  // namespace millrace::core
