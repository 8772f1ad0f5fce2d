// NUMA: what the system's files say, and that preferences never harm.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/numa.h"

namespace millrace::core {
namespace {

struct Sys {
  std::filesystem::path root =
      std::filesystem::temp_directory_path() / ("millrace-sys-" + std::to_string(getpid()));
  ~Sys() { std::filesystem::remove_all(root); }
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  }
};

TEST(Numa, TheNodeOfADeviceIsWhatTheSystemSays) {
  const Sys sys;
  const std::string device = "0000:3b:00.0";
  EXPECT_EQ(numa_node_of(device, sys.root), -1);
  sys.write("bus/pci/devices/" + device + "/numa_node", "1\n");
  EXPECT_EQ(numa_node_of(device, sys.root), -1) << "a system without nodes";
  sys.write("devices/system/node/online", "0\n");
  EXPECT_EQ(numa_node_of(device, sys.root), -1) << "one node";
  sys.write("devices/system/node/online", "0-3\n");
  EXPECT_EQ(numa_node_of(device, sys.root), 1);
  EXPECT_EQ(numa_node_of("0000:00:00.0", sys.root), -1);
  sys.write("bus/pci/devices/" + device + "/numa_node", "-1\n");
  EXPECT_EQ(numa_node_of(device, sys.root), -1);
}

TEST(Numa, MemoryComesWhateverIsPreferred) {
  constexpr size_t kBlock = 1 << 20;
  for (const int node : {-1, 0, 5, 63, 1000}) {
    const NearNode near(node);
    void* memory = mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    prefer_node(memory, kBlock, node);
    std::memset(memory, 1, kBlock);
    munmap(memory, kBlock);
  }
}

}  // namespace
}  // namespace millrace::core
