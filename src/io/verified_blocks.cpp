// A note: 36 characters of the boot's id, the file's state (24 bytes), the bits, CRC32C of all before it.
#include "io/verified_blocks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <span>
#include <string>

#include "io/crc32c.h"

namespace millrace::io {
namespace {

constexpr size_t kBootBytes = 36, kBitsAt = kBootBytes + 24;
constexpr int64_t kTickNs = 20'000'000;        // file times come from a clock that moves every 1 to 10 ms
constexpr int64_t kWindowBytes = 256ll << 20;  // of the file, looked at in one go

int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000LL + time.tv_nsec; }

// Of the kernel, so all containers of a machine have the same. Empty: cannot be told. Read when the library
// is loaded: a child forked while a thread is at its first use would wait for that thread for ever.
const std::string& boot_id = *new std::string([] {
  char text[kBootBytes];
  const int fd = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  const ssize_t got = fd < 0 ? -1 : ::read(fd, text, sizeof text);
  if (fd >= 0) ::close(fd);
  return got == sizeof text ? std::string(text, sizeof text) : std::string();
}());

// A note without any bit. Empty: none can be made.
std::vector<uint8_t> empty_note(const FileState& state, size_t blocks) {
  if (boot_id.empty() || state.written < 0) return {};
  std::vector<uint8_t> note(kBitsAt + (blocks + 7) / 8 + 4);
  std::memcpy(note.data(), boot_id.data(), kBootBytes);
  std::memcpy(note.data() + kBootBytes, &state.inode, 8);
  std::memcpy(note.data() + kBootBytes + 8, &state.written, 8);
  std::memcpy(note.data() + kBootBytes + 16, &state.changed, 8);
  return note;
}

uint32_t checksum_of(const std::vector<uint8_t>& note) {
  return crc32c(0, std::span(note).first(note.size() - 4));
}

// The note that is there, if it is whole and says the same as `key` of boot and file; else `key`.
std::vector<uint8_t> note_like(std::vector<uint8_t> key, int map_fd, int64_t at) {
  std::vector<uint8_t> note(key.size());
  if (::pread(map_fd, note.data(), note.size(), at) != static_cast<ssize_t>(note.size())) return key;
  const uint32_t checksum = checksum_of(note);
  const bool same = std::equal(key.begin(), key.begin() + kBitsAt, note.begin());
  return same && std::memcmp(&checksum, note.data() + note.size() - 4, 4) == 0 ? note : key;
}

struct Pages {
  int64_t first, count;
};

Pages pages_of(int64_t offset, int64_t bytes, int64_t page) {
  return {offset / page, bytes <= 0 ? 0 : (offset + bytes - 1) / page - offset / page + 1};
}

// Pages of these bytes that are in memory, in microseconds for gigabytes; -1 before Linux 6.5.
int64_t pages_in_memory(int fd, int64_t offset, int64_t bytes) {
  constexpr long kCachestat = 451;  // on every architecture
  const uint64_t range[2] = {static_cast<uint64_t>(offset), static_cast<uint64_t>(bytes)};
  uint64_t counts[5];
  return ::syscall(kCachestat, fd, range, counts, 0u) == 0 ? static_cast<int64_t>(counts[0]) : -1;
}

// The same page by page: 20 microseconds per MiB. All false where it cannot be told.
std::vector<bool> map_of_memory(int fd, int64_t size, int64_t page) {
  std::vector<bool> there(static_cast<size_t>((size + page - 1) / page));
  std::vector<unsigned char> part(static_cast<size_t>(kWindowBytes / page));
  for (int64_t start = 0; start < size; start += kWindowBytes) {
    const auto bytes = static_cast<size_t>(std::min(kWindowBytes, size - start));
    void* const window = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, start);
    if (window == MAP_FAILED) continue;
    const auto [first, count] = pages_of(start, static_cast<int64_t>(bytes), page);
    if (::mincore(window, bytes, part.data()) == 0)
      for (int64_t i = 0; i < count; ++i)
        there[static_cast<size_t>(first + i)] = part[static_cast<size_t>(i)] & 1;
    ::munmap(window, bytes);
  }
  return there;
}

// Clears the flags of blocks that are not in memory, all of them.
void keep_what_is_in_memory(int fd, int64_t block_bytes, std::vector<bool>& flags) {
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  struct stat status;
  const int64_t size = ::fstat(fd, &status) == 0 ? status.st_size : 0;
  const auto blocks = static_cast<int64_t>(flags.size());
  const int64_t in_memory = pages_in_memory(fd, 0, size);
  if (in_memory == pages_of(0, size, page).count && size > (blocks - 1) * block_bytes) return;
  const auto there = in_memory < 0 ? map_of_memory(fd, size, page) : std::vector<bool>();
  for (int64_t block = 0; block < blocks; ++block) {
    auto flag = flags[static_cast<size_t>(block)];
    const int64_t begin = block * block_bytes, bytes = std::min(block_bytes, size - begin);
    const auto [first, count] = pages_of(begin, bytes, page);
    if (!flag) continue;
    if (in_memory >= 0)
      flag = count > 0 && pages_in_memory(fd, begin, bytes) == count;
    else
      flag = count > 0 && std::all_of(there.begin() + first, there.begin() + first + count,
                                      [](bool here) { return here; });
  }
}

}  // namespace

FileState state_of(int fd) {
  struct stat status;
  if (::fstat(fd, &status) != 0) return {};
  return {status.st_ino, nanoseconds(status.st_mtim), nanoseconds(status.st_ctim)};
}

std::vector<bool> recall_verified(int map_fd, int64_t at, int data_fd, size_t blocks, int64_t block_bytes) {
  std::vector<bool> flags(blocks);
  const auto key = empty_note(state_of(data_fd), blocks);
  if (key.empty()) return flags;
  const auto note = note_like(key, map_fd, at);
  for (size_t i = 0; i < blocks; ++i) flags[i] = note[kBitsAt + i / 8] >> i % 8 & 1;
  if (std::find(flags.begin(), flags.end(), true) != flags.end())
    keep_what_is_in_memory(data_fd, block_bytes, flags);
  return flags;
}

void note_verified(int map_fd, int64_t at, int data_fd, FileState as_of, const std::vector<bool>& blocks) {
  if (state_of(data_fd) != as_of) return;
  const auto key = empty_note(as_of, blocks.size());
  if (key.empty()) return;
  const auto old = note_like(key, map_fd, at);
  auto note = old;
  for (size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i]) note[kBitsAt + i / 8] = static_cast<uint8_t>(note[kBitsAt + i / 8] | 1 << i % 8);
  if (note == old) return;
  timespec now;
  ::clock_gettime(CLOCK_REALTIME, &now);
  const bool recent = nanoseconds(now) - std::max(as_of.written, as_of.changed) < kTickNs;
  if (recent || as_of.written % 1'000'000'000 ==
                    0) {  // the latter may come from a file system that counts seconds, and shows below
    const timespec times[2] = {{0, UTIME_OMIT}, now};
    if (::futimens(data_fd, times) != 0) return;
    as_of = state_of(data_fd);
    if (as_of.written != nanoseconds(now)) return;
    std::copy_n(empty_note(as_of, blocks.size()).begin(), kBitsAt, note.begin());
  }
  const uint32_t checksum = checksum_of(note);
  std::memcpy(note.data() + note.size() - 4, &checksum, 4);
  [[maybe_unused]] const ssize_t put = ::pwrite(map_fd, note.data(), note.size(), at);
}

}  // namespace millrace::io
