#include "core/fork_witness.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace millrace::core {
namespace {

constexpr size_t kLeast = 1;  // becomes a page

}  // namespace

ForkWitness::ForkWitness()
    : fd_(memfd_create("millrace-forked", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL)) {
  if (fd_ < 0 && errno == EINVAL)
    fd_ = memfd_create("millrace-forked", MFD_CLOEXEC | MFD_ALLOW_SEALING);  // before Linux 6.3
}

ForkWitness::~ForkWitness() {
  if (fd_ >= 0) close(fd_);
}

bool ForkWitness::appear() {
  if (!valid()) return false;
  // Shared and writable: the kernel counts no other. Nobody reads or writes it, so the file needs no length.
  void* mapping = mmap(nullptr, kLeast, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (mapping == MAP_FAILED) return false;
  mapping_ = mapping;
  return true;
}

void ForkWitness::disappear() {
  if (mapping_ != nullptr) munmap(std::exchange(mapping_, nullptr), kLeast);
}

bool ForkWitness::nobody_left() { return valid() && fcntl(fd_, F_ADD_SEALS, F_SEAL_WRITE) == 0; }

}  // namespace millrace::core
