#include "json/json_targets.h"

#include <simdjson.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cpu_targets.h"

namespace millrace::json {
namespace {

// Highway's sets that have what each implementation needs, the best first. Others ("arm64", "fallback") are
// what simdjson has there without a choice.
constexpr std::pair<std::string_view, std::string_view> kNeeds[] = {
    {"icelake", "AVX3_DL"}, {"haswell", "AVX2"}, {"westmere", "SSE4"}};

}  // namespace

void follow_cpu_targets() {
  const std::vector<std::string> allowed = base::cpu_targets();
  const auto& all = simdjson::get_available_implementations();
  for (const auto& [name, needed] : kNeeds) {
    const simdjson::implementation* implementation = all[name];
    if (implementation == nullptr || !implementation->supported_by_runtime_system()) continue;
    if (std::find(allowed.begin(), allowed.end(), needed) == allowed.end()) continue;
    simdjson::get_active_implementation() = implementation;
    return;
  }
}

std::string json_target() {
  // Until something is parsed, the active one is what looks for the best.
  const simdjson::implementation* active = simdjson::get_active_implementation();
  return active->name();
}

}  // namespace millrace::json
