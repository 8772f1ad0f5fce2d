// A table by name, one per process.
#include "io/verified_blocks.h"

#include <sys/stat.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "core/fork_guard.h"

namespace millrace {
namespace {

struct Known {
  int64_t written = -1;  // nanoseconds
  std::vector<uint64_t> records;
};

struct Registry {
  const uint64_t generation = fork_generation();
  std::mutex mutex;
  std::unordered_map<std::string, Known> entries;
};

// The lock may have been copied while held: a forked child leaves the parent's registry alone, for ever, and takes one of its own.
Registry& registry() {
  static std::atomic<Registry*> current{nullptr};
  Registry* mine = current.load();
  while (mine == nullptr || mine->generation != fork_generation()) {
    auto fresh = std::make_unique<Registry>();
    if (current.compare_exchange_strong(mine, fresh.get())) return *fresh.release();
  }
  return *mine;
}

}  // namespace

int64_t file_time(int fd) {
  struct stat status;
  if (::fstat(fd, &status) != 0) return -2;
  return status.st_mtim.tv_sec * 1'000'000'000LL + status.st_mtim.tv_nsec;
}

std::vector<uint64_t> recall_verified(const std::string& entry, int data_fd) {
  const int64_t now = file_time(data_fd);
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  const auto found = known.entries.find(entry);
  return found != known.entries.end() && found->second.written == now ? found->second.records : std::vector<uint64_t>();
}

void remember_verified(const std::string& entry, int64_t written, std::vector<uint64_t> records) {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  Known& of = known.entries[entry];
  if (of.written == written && of.records.size() == records.size())
    for (size_t i = 0; i < records.size(); ++i)
      if (records[i] == 0) records[i] = of.records[i];
  of = {written, std::move(records)};
}

}  // namespace millrace
