// Every instruction set that this machine has gives the bits of the scalar kernels of colours.
#include "transforms/color_kernels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/geometry.h"
#include "hwy/highway.h"
#include "test_parts.h"

namespace millrace::transforms {
namespace {

using Pixels = std::vector<uint8_t>;
using Kernel = std::function<void(const uint8_t* in, int32_t width, uint8_t* out)>;

class ColorKernelTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  // Memory of exactly the pixels' size, so that the address sanitizer sees any access outside.
  Pixels random_row() {
    Pixels row((1 + random_() % 70) * base::kPixelBytes);
    for (uint8_t& byte : row)
      byte = static_cast<uint8_t>(random_() % 4 ? random_() : (random_() % 2 ? 0 : 255));
    return row;
  }

  // Both into another row and in place; the fourth bytes mean nothing.
  static void expect_same(const Pixels& row, const Kernel& kernel, const Kernel& scalar) {
    const auto width = static_cast<int32_t>(row.size() / base::kPixelBytes);
    Pixels expected(row.size()), got(row.size()), in_place = row;
    scalar(row.data(), width, expected.data());
    kernel(row.data(), width, got.data());
    kernel(in_place.data(), width, in_place.data());
    for (size_t i = 0; i < row.size(); i += base::kPixelBytes) {
      ASSERT_EQ(std::memcmp(&got[i], &expected[i], 3), 0)
          << "(" << +row[i] << ", " << +row[i + 1] << ", " << +row[i + 2] << "), pixel "
          << i / base::kPixelBytes << " of " << width;
      ASSERT_EQ(std::memcmp(&in_place[i], &expected[i], 3), 0)
          << "in place, pixel " << i / base::kPixelBytes << " of " << width;
    }
  }

  std::mt19937 random_{7};
};

TEST_P(ColorKernelTest, Blends) {
  for (int round = 0; round < 500; ++round) {
    const Pixels row = random_row();
    const auto level = static_cast<uint8_t>(random_());
    const float factor =
        round % 9 == 0 ? static_cast<float>(round % 2) : static_cast<float>(random_() % 3000) / 997;
    expect_same(
        row,
        [=](const uint8_t* in, int32_t width, uint8_t* out) {
          blend_with_level(in, width, level, factor, out);
        },
        [=](const uint8_t* in, int32_t width, uint8_t* out) {
          scalar::blend_with_level(in, width, level, factor, out);
        });
    expect_same(
        row, [=](const uint8_t* in, int32_t width, uint8_t* out) { blend_with_grey(in, width, factor, out); },
        [=](const uint8_t* in, int32_t width, uint8_t* out) {
          scalar::blend_with_grey(in, width, factor, out);
        });
    const auto width = static_cast<int32_t>(row.size() / base::kPixelBytes);
    ASSERT_EQ(sum_of_grey(row.data(), width), scalar::sum_of_grey(row.data(), width));
  }
}

// A part of all colours by many turns; the parity tests compare all of them with Pillow.
TEST_P(ColorKernelTest, ShiftsHues) {
  for (uint32_t shift = 0; shift < 256; shift += 5) {
    Pixels row = random_row();
    row.resize(size_t{6007} * base::kPixelBytes);
    for (size_t i = 0; i < row.size(); i += base::kPixelBytes) {
      const uint32_t color = static_cast<uint32_t>(i / base::kPixelBytes * 2791 + shift * 7919) & 0xFFFFFF;
      std::memcpy(&row[i], &color, 4);
    }
    expect_same(
        row,
        [=](const uint8_t* in, int32_t width, uint8_t* out) {
          shift_hue(in, width, static_cast<uint8_t>(shift), out);
        },
        [=](const uint8_t* in, int32_t width, uint8_t* out) {
          scalar::shift_hue(in, width, static_cast<uint8_t>(shift), out);
        });
  }
  for (int round = 0; round < 200; ++round)
    expect_same(
        random_row(), [=](const uint8_t* in, int32_t width, uint8_t* out) { shift_hue(in, width, 77, out); },
        [=](const uint8_t* in, int32_t width, uint8_t* out) { scalar::shift_hue(in, width, 77, out); });
}

INSTANTIATE_TEST_SUITE_P(Targets, ColorKernelTest, testing::ValuesIn(test::instruction_sets()),
                         test::set_name);

}  // namespace
}  // namespace millrace::transforms
