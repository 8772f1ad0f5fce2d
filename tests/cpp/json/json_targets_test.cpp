#include "json/json_targets.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/cpu_targets.h"

namespace millrace::json {
namespace {

TEST(JsonTargets, FollowTheLimit) {
  base::limit_cpu_targets("");
  follow_cpu_targets();
  const auto had = base::cpu_targets();
  if (std::find(had.begin(), had.end(), "SSE4") == had.end()) GTEST_SKIP() << "no x86";
  base::limit_cpu_targets("SSE4");
  follow_cpu_targets();
  EXPECT_EQ(json_target(), "westmere");
  base::limit_cpu_targets("AVX2");
  follow_cpu_targets();
  EXPECT_EQ(json_target(), base::cpu_targets().front() == "AVX2" ? "haswell" : "westmere");
  base::limit_cpu_targets("");
  follow_cpu_targets();
}

}  // namespace
}  // namespace millrace::json
