// Memory near a device, on machines with several NUMA nodes. Everything is a preference: where the system
// knows no nodes, has one, or does not let the process choose (as many containers), memory comes from where
// it always does.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace millrace::core {

// The node that a PCI device ("0000:3b:00.0") hangs on, as `sys` tells; -1 when it does not, or when there is
// only one node.
int numa_node_of(const std::string& pci_address, const std::string& sys = "/sys");

// While it lives, pages that the calling thread touches first come from `node`, if they can; nothing happens
// for -1.
class NearNode {
 public:
  explicit NearNode(int node) noexcept;
  ~NearNode();
  NearNode(const NearNode&) = delete;
  NearNode& operator=(const NearNode&) = delete;

 private:
  int mode_ = 0;  // the thread's policy before
  std::array<unsigned long, 16> nodes_{};
  bool set_ = false;
};

// The same for pages of a mapping, whichever thread touches them; of a shared file, in every process. Whole
// pages.
void prefer_node(void* data, size_t bytes, int node) noexcept;

}  // namespace millrace::core
