#include "transforms/value_table.h"

#include <gtest/gtest.h>

#include "millrace/error.h"
#include "transforms/kernels.h"
#include "test_parts.h"

namespace millrace::transforms {
namespace {

using test::kNormalize;

// The expected bits were printed by torch 2.13.
TEST(ValueTable, DividesAndMultipliesAsTorchDoes) {
  const ValueTable divided = make_value_table({OutputType::f32, false}, {});
  const ValueTable multiplied = make_value_table({OutputType::f32, true}, {});
  EXPECT_EQ(divided.value<float>(0, 255), 1.0f);
  EXPECT_EQ(divided.value<float>(1, 10), 10.0f / 255.0f);
  int different = 0;
  for (int byte = 0; byte < 256; ++byte)
    different += divided.value<float>(0, byte) != multiplied.value<float>(0, byte);
  EXPECT_EQ(different, 126);
}

TEST(ValueTable, NormalizesInTheTensorsType) {
  const ValueTable f32 = make_value_table({OutputType::f32}, kNormalize);
  EXPECT_EQ(f32.value<float>(0, 0), -2.117904f);
  EXPECT_EQ(f32.value<float>(1, 128), 0.2051822f);
  EXPECT_EQ(f32.value<float>(2, 255), 2.64f);
  const ValueTable f16 = make_value_table({OutputType::f16}, kNormalize);
  EXPECT_EQ(f16.value<uint16_t>(0, 0), 0xC03D);
  EXPECT_EQ(f16.value<uint16_t>(1, 128), 0x328F);
  const ValueTable bf16 = make_value_table({OutputType::bf16}, kNormalize);
  EXPECT_EQ(bf16.value<uint16_t>(0, 0), 0xC008);
  EXPECT_EQ(bf16.value<uint16_t>(2, 255), 0x4029);
  const ValueTable f64 = make_value_table({OutputType::f64}, kNormalize);
  EXPECT_EQ(f64.value<double>(0, 0), (0.0 - 0.485) / 0.229);
}

TEST(ValueTable, BytesStayBytes) {
  const ValueTable u8 = make_value_table({OutputType::u8}, {});
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(u8.value<uint8_t>(2, byte), byte);
}

TEST(ValueTable, RefusesAStdThatVanishesInTheTensorsType) {
  EXPECT_NO_THROW(make_value_table({OutputType::f32}, Normalize{{0, 0, 0}, {1e-9, 1, 1}}));
  EXPECT_THROW(make_value_table({OutputType::f16}, Normalize{{0, 0, 0}, {1e-9, 1, 1}}), Error);
}

TEST(ValueTable, KernelArithmeticIsOnlyForF32) {
  EXPECT_FALSE(math_gives_table(make_value_table({OutputType::u8}, {})));
  EXPECT_FALSE(math_gives_table(make_value_table({OutputType::f16}, kNormalize)));
  ValueTable off_by_one_bit = make_value_table({OutputType::f32}, kNormalize);
  off_by_one_bit.channels[1][4 * 77] ^= std::byte{1};
  EXPECT_FALSE(math_gives_table(off_by_one_bit));
}

}  // namespace
}  // namespace millrace::transforms
