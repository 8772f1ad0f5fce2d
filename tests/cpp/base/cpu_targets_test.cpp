#include "base/cpu_targets.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace millrace::base {
namespace {

class CpuTargets : public testing::Test {
 protected:
  void TearDown() override { limit_cpu_targets(""); }
};

TEST_F(CpuTargets, EachLimitLeavesItselfAndTheOlderOnes) {
  const std::vector<std::string> had = cpu_targets();
  ASSERT_FALSE(had.empty());
  for (size_t i = 0; i < had.size(); ++i) {
    limit_cpu_targets(had[i]);
    EXPECT_EQ(cpu_targets(), std::vector<std::string>(had.begin() + static_cast<ptrdiff_t>(i), had.end()));
  }
  limit_cpu_targets("");
  EXPECT_EQ(cpu_targets(), had);
}

TEST_F(CpuTargets, WhatTheProcessorLacksIsNoLimit) {
  const std::vector<std::string> had = cpu_targets();
  limit_cpu_targets(all_cpu_targets().front());
  EXPECT_EQ(cpu_targets(), had);
}

TEST_F(CpuTargets, OtherNamesAreRefusedWithThoseThereAre) {
  try {
    limit_cpu_targets("avx9");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find(cpu_targets().front()), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace millrace::base
