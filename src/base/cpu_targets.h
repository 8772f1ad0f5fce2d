// Which of the instruction sets that the SIMD kernels were compiled for are used: the best that the processor
// has, or fewer, so that a machine with new instructions can do what an older one does.
//
// Limits hold for the process, and for all of Highway's users that share its library. Any thread may ask; set
// them before kernels run: those that run meanwhile use either.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace::base {

// Highway's names of those in use, the best first: {"AVX2", "SSE4"}. Kernels run the first.
std::vector<std::string> cpu_targets();

// From here on nothing better than `newest` (one of all_cpu_targets()) is used; "" takes the limit back. A
// processor without it uses what it has. Throws std::invalid_argument for other names.
void limit_cpu_targets(std::string_view newest);

// All that the kernels were compiled for, the best first.
std::vector<std::string> all_cpu_targets();

}  // namespace millrace::base
