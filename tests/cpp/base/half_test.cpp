// half: every binary16 comes back, and what lies between two goes to the nearer one.
#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>

namespace millrace::base {
namespace {

TEST(Half, EveryOneComesBackAndWhatLiesBetweenIsRounded) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float f = from_f16(half);
    if (std::isnan(f)) continue;
    ASSERT_EQ(to_f16(f), half);
    // Half-way to the next value goes to the even one; just beyond, up.
    if ((half & 0x7FFF) < 0x7BFF) {
      const float next = from_f16(static_cast<uint16_t>(half + 1)), middle = (f + next) / 2;
      ASSERT_EQ(to_f16(middle), half % 2 ? half + 1 : half);
      ASSERT_EQ(to_f16(std::nextafter(middle, next)), half + 1);
    }
  }
  EXPECT_EQ(to_f16(65520.0f), 0x7C00);
  EXPECT_EQ(to_f16(-1e9f), 0xFC00);
  EXPECT_EQ(to_bf16(1.00390625f), 0x3F80);  // half-way: to even
  EXPECT_EQ(to_bf16(1.01171875f), 0x3F82);
}

}  // namespace
}  // namespace millrace::base
