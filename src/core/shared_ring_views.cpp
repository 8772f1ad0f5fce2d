// Where the slots of a ring lie in this process.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "core/numa.h"
#include "core/shared_ring_state.h"
#include "millrace/error.h"

namespace millrace::core {
namespace {

[[noreturn]] void fail_for_want_of_addresses(size_t bytes) {
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  const std::string why =
      limited ? "the address space of this process is limited to " + std::to_string(limit.rlim_cur >> 20) +
                    " MiB (ulimit -v, or a limit of the batch system, as h_vmem); raise the limit"
              : "this process has no addresses left, or too many mappings (sysctl vm.max_map_count)";
  throw Error(ErrorKind::system,
              "there is no address space for a batch of " + std::to_string(bytes) + " bytes: " + why +
                  ", use smaller batches or fewer workers, or keep fewer batches and loaders at a time",
              {}, -1, ENOMEM);
}

}  // namespace

size_t SharedRing::State::whole_pages(size_t bytes) const {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return std::min((bytes + page - 1) / page * page, stride);
}

bool SharedRing::State::extend(int slot, size_t bytes) {
  View& mine = views[static_cast<size_t>(slot)];
  void* at = mine.data == nullptr ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                                         fd_of(slot), place(slot, 0))
                                  : mremap(mine.data, mine.bytes, bytes, MREMAP_MAYMOVE);
  if (at == MAP_FAILED) return false;
  if (mine.data == nullptr) madvise(at, bytes, MADV_DONTDUMP);
  mine.data = static_cast<uint8_t*>(at);
  mine.bytes = bytes;
  return true;
}

uint8_t* SharedRing::State::view(int slot, size_t bytes) {
  View& mine = views[static_cast<size_t>(slot)];
  if (bytes <= mine.bytes) return mine.data;
  const bool fills_only = all.empty() || !owner();
  if (bytes > stride || mine.kept || (!fills_only && all[static_cast<size_t>(slot)].leased))
    throw Error(ErrorKind::out_of_range,
                std::to_string(bytes) + " bytes are more than slot " + std::to_string(slot) + " has", {}, -1,
                EFBIG);
  if (!fills_only) unlock(slot);
  const size_t exact = whole_pages(bytes);
  // A little longer batch should not move it again.
  if (extend(slot, whole_pages(exact + exact / 8)) || extend(slot, exact)) return mine.data;
  if (fills_only) {  // where a worker puts only this batch, and the slots of others can be mapped again
    for (int other = 0; other < slots; ++other)
      if (other != slot && !views[static_cast<size_t>(other)].kept) unmap(other);
    if (extend(slot, exact)) return mine.data;
  }
  fail_for_want_of_addresses(bytes);
}

void SharedRing::State::unmap(int slot) {
  View& mine = views[static_cast<size_t>(slot)];
  if (mine.data != nullptr) munmap(mine.data, mine.bytes);
  mine = {};
}

// The policy belongs to the files, so it stays when the mapping through which it is set has gone.
void SharedRing::prefer_node(int node) {
  if (node < 0) return;
  const State& s = *state_;
  for (int slot = 0; slot < s.slots; ++slot) {
    void* at =
        mmap(nullptr, s.stride, PROT_NONE, MAP_SHARED | MAP_NORESERVE, s.fd_of(slot), s.place(slot, 0));
    if (at == MAP_FAILED) return;  // only a preference
    millrace::core::prefer_node(at, s.stride, node);
    munmap(at, s.stride);
  }
}

uint8_t* SharedRing::map(int slot, size_t bytes) const { return state_->view(slot, bytes); }
uint8_t* SharedRing::data(int slot) const { return state_->views[static_cast<size_t>(slot)].data; }

uint8_t* SharedRing::keep(int slot, size_t bytes) const {
  reserve(slot, 0, bytes);
  state_->views[static_cast<size_t>(slot)].kept = true;
  return data(slot);
}

}  // namespace millrace::core
