#include "io/file_mapping.h"

#include <sys/stat.h>

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

}  // namespace

std::optional<FileMapping> FileMappings::at(const void* address) {
  if (!all_) all_ = read_mappings();
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
