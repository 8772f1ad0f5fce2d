#include "core/cgroup.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

namespace millrace::core {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool contains(const std::string& comma_list, const std::string& word) {
  const auto words = split(comma_list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Where a hierarchy is mounted, and which of its folders the mount shows as its root.
struct Mount {
  std::string root, point;
  bool v2 = false;
};

std::vector<Mount> mounts_of(const std::string& controller, const std::string& mountinfo_path) {
  std::vector<Mount> mounts;
  std::ifstream file(mountinfo_path);
  // proc(5): id parent major:minor ROOT POINT options [optional ...] - TYPE source SUPER-OPTIONS
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const auto left = split(line.substr(0, dash), ' '), right = split(line.substr(dash + 3), ' ');
    if (left.size() < 5 || right.size() < 3) continue;
    const bool v2 = right[0] == "cgroup2", v1 = right[0] == "cgroup" && contains(right[2], controller);
    if (v1 || v2) mounts.push_back({left[3], left[4], v2});
  }
  return mounts;
}

// This process's group in the hierarchy of `mount`, as the kernel names it; "/" when unknown.
std::string group_path(const std::string& controller, const std::string& cgroup_path, bool v2) {
  std::ifstream file(cgroup_path);
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (v2 ? controllers.empty() : contains(controllers, controller)) return line.substr(second + 1);
  }
  return "/";
}

}  // namespace

void for_each_cgroup(const std::string& controller,
                     const std::function<void(const std::string&, bool)>& visit,
                     const std::string& proc_self) {
  for (const Mount& mount : mounts_of(controller, proc_self + "/mountinfo")) {
    std::string group = group_path(controller, proc_self + "/cgroup", mount.v2);
    // A container's mount may show only the inside of its own group, while the kernel names it from outside.
    if (mount.root != "/" && group.rfind(mount.root, 0) == 0) group.erase(0, mount.root.size());
    if (group.find("..") != std::string::npos) group.clear();
    for (;;) {
      while (!group.empty() && group.back() == '/') group.pop_back();
      visit(mount.point + group, mount.v2);
      if (group.empty()) break;
      group.erase(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
    }
  }
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace millrace::core
