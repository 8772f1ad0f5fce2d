// cgroup: the control groups that limit this process, from its own to the root of each mount (cgroups(7)).
//
// Costs a few small reads under /proc; what cannot be read is no limit. Any thread.
#pragma once

#include <functional>
#include <string>

namespace millrace::core {

// Calls `visit(folder, v2)` for each group of the hierarchy that has `controller` ("cpu", "memory"), the
// innermost first. `proc_self` holds the files `cgroup` and `mountinfo`.
void for_each_cgroup(const std::string& controller,
                     const std::function<void(const std::string& folder, bool v2)>& visit,
                     const std::string& proc_self = "/proc/self");

// The first line of a file, empty when there is none.
std::string first_line(const std::string& path);

}  // namespace millrace::core
