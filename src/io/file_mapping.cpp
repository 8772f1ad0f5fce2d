#include "io/file_mapping.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string_view>
#include <utility>

namespace millrace::io {
namespace {

constexpr std::string_view kDeleted = " (deleted)";

// A line of /proc/self/maps: "begin-end access offset device inode   path", the path as it is but for
// newlines.
std::optional<FileMapping> mapping_of(const std::string& line) {
  uintptr_t begin = 0, end = 0;
  uint64_t offset = 0, inode = 0;
  int path_at = 0;
  constexpr const char* kForm = "%" SCNxPTR "-%" SCNxPTR " %*s %" SCNx64 " %*s %" SCNu64 " %n";
  if (std::sscanf(line.c_str(), kForm, &begin, &end, &offset, &inode, &path_at) < 4) return std::nullopt;
  std::string path = line.substr(static_cast<size_t>(path_at));
  // Anonymous memory that is shared has a file's form, too, but nobody can cut it.
  if (inode == 0 || path.empty() || path[0] != '/' || path.starts_with("/dev/zero") ||
      path.starts_with("/SYSV"))
    return std::nullopt;
  const bool on_disk = !path.starts_with("/dev/") && !path.starts_with("/memfd:");
  if (path.ends_with(kDeleted) || path.starts_with("/memfd:")) path.clear();
  return FileMapping{reinterpret_cast<const uint8_t*>(begin), reinterpret_cast<const uint8_t*>(end),
                     static_cast<int64_t>(offset), std::move(path), on_disk};
}

std::vector<FileMapping> read_mappings() {
  std::vector<FileMapping> result;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    auto mapping = mapping_of(line);
    if (!mapping) continue;
    // Parts with other rights, or that the system split, are listed apart.
    if (!result.empty() && result.back().end == mapping->begin && result.back().path == mapping->path &&
        result.back().offset + (result.back().end - result.back().begin) == mapping->offset)
      result.back().end = mapping->end;
    else
      result.push_back(std::move(*mapping));
  }
  return result;
}

// What Linux 6.11 and newer say of one address without writing the whole list, which takes a millisecond in a
// process of some hundred mappings: PROCMAP_QUERY of linux/fs.h, which older headers do not have.
struct MapQuery {
  uint64_t size = sizeof(MapQuery), flags = 0, address = 0;
  uint64_t begin = 0, end = 0, rights = 0, page_size = 0, offset = 0, inode = 0;
  uint32_t device_major = 0, device_minor = 0, name_size = 0, build_id_size = 0;
  uint64_t name_address = 0, build_id_address = 0;
};
static_assert(sizeof(MapQuery) == 104);

// Whether the address is not mapped from a file; also false where the system cannot tell.
bool is_anonymous(const void* address) {
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return false;
  MapQuery query;
  query.address = reinterpret_cast<uintptr_t>(address);
  const bool known = ::ioctl(maps, _IOWR('f', 17, MapQuery), &query) == 0;
  ::close(maps);
  return known && query.inode == 0;
}

}  // namespace

std::optional<FileMapping> FileMappings::at(const void* address) {
  if (!all_) {
    if (is_anonymous(address)) return std::nullopt;
    all_ = read_mappings();
  }
  const auto* at = static_cast<const uint8_t*>(address);
  const auto behind = std::upper_bound(all_->begin(), all_->end(), at,
                                       [](const uint8_t* a, const FileMapping& m) { return a < m.begin; });
  if (behind == all_->begin() || std::prev(behind)->end <= at) return std::nullopt;
  return *std::prev(behind);
}

ShrinkWatch::ShrinkWatch(std::string path, int64_t bytes) : path_(std::move(path)), bytes_(bytes) {
  struct stat status;
  if (path_.empty() || ::stat(path_.c_str(), &status) != 0) return;
  known_ = true;
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

bool ShrinkWatch::shrank() const {
  struct stat status;
  if (!known_ || ::stat(path_.c_str(), &status) != 0) return false;
  return status.st_dev == device_ && status.st_ino == inode_ && status.st_size < bytes_;
}

}  // namespace millrace::io
