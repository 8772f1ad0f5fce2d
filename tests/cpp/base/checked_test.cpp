// Checked arithmetic: the largest product that fits, and the first that does not.
#include "base/checked.h"

#include <gtest/gtest.h>

#include <limits>

namespace millrace::base {
namespace {

constexpr size_t kMax = std::numeric_limits<size_t>::max();

TEST(CheckedMul, FitsOrThrows) {
  EXPECT_EQ(checked_mul(0, kMax, "batch"), 0u);
  EXPECT_EQ(checked_mul(3, kMax / 3, "batch"), kMax / 3 * 3);
  try {
    checked_mul(2, kMax / 2 + 1, "batch");
    FAIL() << "an overflow must throw";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::invalid_argument);
    EXPECT_EQ(std::string(e.what()).rfind("batch: ", 0), 0u) << e.what();
  }
}

}  // namespace
}  // namespace millrace::base
