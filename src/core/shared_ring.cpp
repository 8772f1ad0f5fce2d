#include "core/shared_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/memory_budget.h"
#include "core/shared_ring_state.h"
#include "millrace/error.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace millrace::core {
namespace {

constexpr size_t kFileBytes = size_t{1} << 44;  // of all files together, most of them holes
constexpr size_t kLeastStride = size_t{1} << 20;
constexpr size_t kSlotAlignment = size_t{2} << 20;

[[noreturn]] void fail(const std::string& what, int code) {
  throw Error(ErrorKind::system, what + ": " + std::strerror(code), {}, -1, code);
}

[[noreturn]] void fail_for_want_of_memory(size_t bytes) {
  fail("there is no memory for a batch of " + std::to_string(bytes) +
           " bytes; use a smaller batch_size, prefetch_factor or "
           "num_workers",
       errno);
}

int make_file() {
  int fd = memfd_create("millrace-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (fd < 0 && errno == EINVAL)
    fd = memfd_create("millrace-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);  // before Linux 6.3
  if (fd < 0) fail("cannot make the shared memory of worker processes (memfd_create)", errno);
  return fd;
}

}  // namespace

SharedRing::State::~State() {
  if (owner()) SharedRingForks::remove(*this);
  if (owner())
    for (int slot = 0; slot < static_cast<int>(all.size()); ++slot) unlock(slot);
  for (int slot = 0; slot < static_cast<int>(views.size()); ++slot) unmap(slot);
  for (const int fd : fds) close(fd);
}

void SharedRing::State::punch(int slot) {
  unlock(slot);  // else the device would go on with pages that are no longer the file's
  fallocate(fd_of(slot), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, place(slot, 0),
            static_cast<off_t>(stride));
  unmap(slot);
}

// Takes a slot back. Free slots beyond `warm` give their memory to the system, the one unused longest first.
void SharedRing::State::put(int slot) {
  int cold = -1;
  {
    std::unique_lock lock(mutex);
    Slot& mine = all[static_cast<size_t>(slot)];
    if (std::exchange(mine.leased, false)) --leased;
    if (mine.retired_for > 0) {  // a forked child may still read it
      mine.came_back = true;
      ++came_back;
      lock.unlock();
      SharedRingForks::take_back();
      return;
    }
    if (closed) {
      cold = slot;
    } else {
      free.push_back(slot);
      const auto is_warm = [this](int s) { return all[static_cast<size_t>(s)].reserved > 0; };
      if (std::count_if(free.begin(), free.end(), is_warm) > warm) {
        const auto coldest = std::find_if(free.begin(), free.end(), is_warm);
        cold = *coldest;
        free.erase(coldest);  // nobody may take it while its pages go
      }
    }
    if (cold >= 0) all[static_cast<size_t>(cold)].reserved = 0;
  }
  if (cold < 0) return;
  punch(cold);
  const std::lock_guard lock(mutex);
  if (!closed) free.insert(free.begin(), cold);
}

void SharedRing::State::child_ended(int slot) {
  {
    const std::lock_guard lock(mutex);
    Slot& mine = all[static_cast<size_t>(slot)];
    if (--mine.retired_for > 0 || !std::exchange(mine.came_back, false)) return;
    --came_back;
  }
  put(slot);
}

void SharedRing::State::punch_free() {
  std::vector<int> gone;
  {
    const std::lock_guard lock(mutex);
    closed = true;
    gone.swap(free);
    std::erase_if(gone, [this](int slot) {
      const auto at = static_cast<size_t>(slot);
      return all[at].reserved == 0 && views[at].data == nullptr;
    });
  }
  for (const int slot : gone) punch(slot);
}

// One of the tensors' right to a slot.
struct SharedRing::Lease {
  std::shared_ptr<State> state;
  int slot;
  ~Lease() {
    if (state->owner())
      state->put(slot);  // else inherited by a forked child: not ours, and no lock may be touched
  }
};

SharedRing::SharedRing(int slots, int warm, int files) : state_(std::make_shared<State>()) {
  if (slots < 1 || files < 1)
    throw Error(ErrorKind::invalid_argument, "a ring needs at least one slot and one file, got " +
                                                 std::to_string(slots) + " and " + std::to_string(files));
  State& s = *state_;
  const int of_each = (slots + files - 1) / files;
  s.slots = of_each * files;
  s.warm = warm;
  for (int i = 0; i < files; ++i) s.fds.push_back(make_file());
  // The sizes of files may be limited: halve until it fits.
  for (s.stride = kFileBytes / static_cast<size_t>(s.slots) / kSlotAlignment * kSlotAlignment;;
       s.stride /= 2) {
    if (s.stride < kLeastStride)
      fail("cannot make files for the shared memory of worker processes; raise the limit (ulimit -f)", errno);
    const size_t bytes = static_cast<size_t>(of_each) * s.stride;
    const auto has_size = [bytes](int fd) { return ftruncate(fd, static_cast<off_t>(bytes)) == 0; };
    if (std::all_of(s.fds.begin(), s.fds.end(), has_size)) break;
  }
  for (const int fd : s.fds)
    fcntl(fd, F_ADD_SEALS,
          F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);  // nobody can cut it off under a reader
  s.all.resize(static_cast<size_t>(s.slots));
  s.views.resize(static_cast<size_t>(s.slots));
  for (int i = of_each; i-- > 0;)
    for (int file = files; file-- > 0;) s.free.push_back(file * of_each + i);
  SharedRingForks::add(s);
}

SharedRing::SharedRing(std::vector<int> fds, int slots, size_t stride) : state_(std::make_shared<State>()) {
  state_->fds = std::move(fds);
  state_->slots = slots;
  state_->stride = stride;
  state_->views.resize(static_cast<size_t>(slots));
}

SharedRing::~SharedRing() {
  if (!state_->owner() || state_->all.empty()) return;
  SharedRingForks::take_back();  // other children than theirs may keep the files
  state_->punch_free();
}

const std::vector<int>& SharedRing::fds() const { return state_->fds; }
int SharedRing::slots() const { return state_->slots; }
size_t SharedRing::stride() const { return state_->stride; }

size_t SharedRing::reserve(int slot, size_t reserved, size_t needed) const {
  if (needed <= reserved) {
    map(slot, needed);
    return reserved;
  }
  const size_t until = state_->whole_pages(needed);
  if (until < needed)
    throw Error(ErrorKind::system,
                "a batch of " + std::to_string(needed) + " bytes is longer than a slot of the shared ring",
                {}, -1, EFBIG);
  refuse_if_memory_is_short(until - reserved, "this batch");
  map(slot, until);
  reserve_range(slot, reserved, until);
  return until;
}

void SharedRing::reserve_range(int slot, size_t begin, size_t end) const {
  while (fallocate(state_->fd_of(slot), 0, state_->place(slot, begin), static_cast<off_t>(end - begin)) !=
         0) {
    if (errno == EINTR) continue;
    if (errno == EOPNOTSUPP) break;
    fail_for_want_of_memory(end);
  }
}

void SharedRing::write(int slot, size_t offset, const void* from, size_t bytes) const {
  const auto* source = static_cast<const uint8_t*>(from);
  const int fd = state_->fd_of(slot);
  for (size_t done = 0; done < bytes;) {
    const ssize_t count = pwrite(fd, source + done, bytes - done, state_->place(slot, offset + done));
    if (count > 0)
      done += static_cast<size_t>(count);
    else if (count == 0 || errno != EINTR)
      fail_for_want_of_memory(offset + bytes);
  }
}

void SharedRing::read(int slot, size_t offset, void* into, size_t bytes) const {
  const State::View& view = state_->views[static_cast<size_t>(slot)];
  if (offset + bytes <= view.bytes) {
    if (bytes > 0) std::memcpy(into, view.data + offset, bytes);
    return;
  }
  for (size_t done = 0; done < bytes;) {
    const ssize_t count = pread(state_->fd_of(slot), static_cast<uint8_t*>(into) + done, bytes - done,
                                state_->place(slot, offset + done));
    if (count > 0)
      done += static_cast<size_t>(count);
    else if (count == 0 || errno != EINTR)
      fail("cannot read the shared memory of worker processes", errno);
  }
}

int SharedRing::take() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  // Fresh pages cost a thousand times what it takes to ask whether children have ended, so that is asked
  // before they are needed.
  if (s.came_back > 0 && (s.free.empty() || s.all[static_cast<size_t>(s.free.back())].reserved == 0)) {
    lock.unlock();
    SharedRingForks::take_back();
    lock.lock();
  }
  if (s.free.empty()) return -1;
  const int slot = s.free.back();
  s.free.pop_back();
  return slot;
}

bool SharedRing::crowded(int working_set) {
  const auto is_crowded = [this, working_set] {
    const std::lock_guard lock(state_->mutex);
    return static_cast<int>(state_->free.size()) < working_set || state_->came_back >= working_set;
  };
  if (!is_crowded()) return false;
  SharedRingForks::take_back();
  return is_crowded();
}

void SharedRing::give_back(int slot) { state_->put(slot); }

void SharedRing::set_reserved(int slot, size_t bytes) {
  const std::lock_guard lock(state_->mutex);
  state_->all[static_cast<size_t>(slot)].reserved = bytes;
}

size_t SharedRing::reserved(int slot) const {
  const std::lock_guard lock(state_->mutex);
  return state_->all[static_cast<size_t>(slot)].reserved;
}

std::shared_ptr<const void> SharedRing::lease(int slot) {
  // Its end gives the slot back, after a failure too.
  auto lease = std::shared_ptr<Lease>(new Lease{state_, slot});
  map(slot, reserved(slot));  // whole, because a leased slot does not move
  State::Slot& mine = state_->all[static_cast<size_t>(slot)];
  std::unique_lock lock(state_->mutex);
  // No device can copy a range that begins in locked pages and ends past them.
  if (mine.locked > 0 && mine.locked < mine.reserved) {
    lock.unlock();
    state_->unlock(slot);
    lock.lock();
  }
  mine.leased = true;
  ++state_->leased;
  return lease;
}

std::string SharedRing::lock_pages(int slot, const PageLocker& locker) {
  size_t reserved;
  {
    const std::lock_guard lock(state_->mutex);
    const State::Slot& mine = state_->all[static_cast<size_t>(slot)];
    if (mine.reserved <= mine.locked) return "";
    reserved = mine.reserved;
    if (!state_->locker.lock) state_->locker = locker;
  }
  state_->unlock(slot);  // it has grown; nothing reads it while it is taken
  try {
    map(slot, reserved);
  } catch (const Error& error) {
    return error.what();
  }
  std::string failure = state_->locker.lock(data(slot), reserved);
  if (failure.empty()) {
    const std::lock_guard lock(state_->mutex);
    state_->all[static_cast<size_t>(slot)].locked = reserved;
  }
  return failure;
}

int SharedRing::free_slots() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<int>(state_->free.size());
}

int SharedRing::retired_slots() const {
  const std::lock_guard lock(state_->mutex);
  return state_->came_back;
}

int SharedRing::leased_slots() const {
  const std::lock_guard lock(state_->mutex);
  return state_->leased;
}

size_t SharedRing::memory_bytes() const {
  const std::lock_guard lock(state_->mutex);
  size_t bytes = 0;
  for (const auto& slot : state_->all) bytes += slot.reserved;
  return bytes;
}

}  // namespace millrace::core
