// simdjson chooses its instruction set by itself: what base::limit_cpu_targets() says is told to it here.
#pragma once

#include <string>

namespace millrace::json {

// Takes simdjson's best implementation that base::cpu_targets() allow. Call it before the first line is
// parsed.
void follow_cpu_targets();

// simdjson's name of what it runs: "haswell" with AVX2, "westmere" with SSE4.2.
std::string json_target();

}  // namespace millrace::json
