#include "core/numa.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <fstream>

namespace millrace::core {
namespace {

// From the kernel's interface (linux/mempolicy.h), which needs no library for these two calls.
constexpr int kPreferred = 1;
constexpr size_t kBitsOfMask = sizeof(unsigned long) * CHAR_BIT;

bool in_mask(int node) { return node >= 0 && static_cast<size_t>(node) < kBitsOfMask; }

}  // namespace

int numa_node_of(const std::string& pci_address, const std::string& sys) {
  std::string online;
  std::ifstream(sys + "/devices/system/node/online") >> online;
  if (online.find_first_of(",-") == std::string::npos)
    return -1;  // "0": one node; empty: the kernel knows none
  int node = -1;
  std::ifstream(sys + "/bus/pci/devices/" + pci_address + "/numa_node") >> node;
  return node;
}

NearNode::NearNode(int node) noexcept {
  if (!in_mask(node)) return;
  if (syscall(SYS_get_mempolicy, &mode_, nodes_.data(), sizeof nodes_ * CHAR_BIT, nullptr, 0) != 0) return;
  const unsigned long mask = 1UL << node;
  set_ = syscall(SYS_set_mempolicy, kPreferred, &mask, kBitsOfMask) == 0;
}

NearNode::~NearNode() {
  if (set_) syscall(SYS_set_mempolicy, mode_, nodes_.data(), sizeof nodes_ * CHAR_BIT);
}

void prefer_node(void* data, size_t bytes, int node) noexcept {
  if (!in_mask(node)) return;
  const unsigned long mask = 1UL << node;
  syscall(SYS_mbind, data, bytes, kPreferred, &mask, kBitsOfMask, 0);
}

}  // namespace millrace::core
