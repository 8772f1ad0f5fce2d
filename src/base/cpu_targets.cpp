#include "base/cpu_targets.h"

#include "base/simd_targets.h"
#include <hwy/highway.h>

#include <cstdint>
#include <stdexcept>

namespace millrace::base {
namespace {

// Of bits, the lowest of which is the best.
std::vector<std::string> names_of(int64_t targets) {
  std::vector<std::string> names;
  for (; targets != 0; targets &= targets - 1) names.emplace_back(hwy::TargetName(targets & -targets));
  return names;
}

}  // namespace

std::vector<std::string> cpu_targets() { return names_of(hwy::SupportedTargets() & HWY_TARGETS); }

std::vector<std::string> all_cpu_targets() { return names_of(HWY_TARGETS); }

void limit_cpu_targets(std::string_view newest) {
  int64_t better = 0;
  if (!newest.empty()) {
    int64_t left = HWY_TARGETS;
    while (left != 0 && newest != hwy::TargetName(left & -left)) left &= left - 1;
    if (left == 0) {
      std::string known;
      for (const std::string& name : all_cpu_targets()) known += (known.empty() ? "" : ", ") + name;
      throw std::invalid_argument("\"" + std::string(newest) +
                                  "\" is no instruction set of this build; it has " + known);
    }
    better = (left & -left) - 1;
  }
  hwy::DisableTargets(better);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace millrace::base
