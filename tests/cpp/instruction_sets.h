// This machine's instruction sets, for INSTANTIATE_TEST_SUITE_P: each that was compiled, and its name.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "hwy/highway.h"

namespace millrace::test {

inline std::vector<int64_t> instruction_sets() { return hwy::SupportedAndGeneratedTargets(); }
inline std::string set_name(const testing::TestParamInfo<int64_t>& set) { return hwy::TargetName(set.param); }

}  // namespace millrace::test
