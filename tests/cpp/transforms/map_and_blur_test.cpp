// Smooth maps and blurs: every instruction set that this machine has gives the bits of the scalar kernels.
// And the noise that erases, whose numbers are part of the contract with other implementations.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "hwy/highway.h"
#include "transforms/affine_rows.h"
#include "transforms/blur_kernels.h"
#include "transforms/erase.h"
#include "transforms/noise.h"
#include "test_parts.h"

namespace millrace::transforms {
namespace {

class MapAndBlurTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  // Memory of exactly the pixels' size, so that the address sanitizer sees any access outside.
  std::vector<uint8_t> random_bytes(size_t count) {
    std::vector<uint8_t> bytes(count);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random_());
    return bytes;
  }
  int32_t below(int32_t n) { return static_cast<int32_t>(random_() % n); }
  double within(double low, double high) { return std::uniform_real_distribution(low, high)(random_); }

  std::mt19937 random_{11};
};

TEST_P(MapAndBlurTest, SmoothMaps) {
  for (int round = 0; round < 1000; ++round) {
    const int32_t width = 1 + below(40), height = 1 + below(40);
    std::vector<uint8_t> pixels = random_bytes(size_t(width) * height * base::kPixelBytes);
    const base::ImageView window{pixels.data(), width, height, width * base::kPixelBytes};
    // The window is the whole picture, or lies somewhere inside.
    const int32_t left = below(2) * below(9), top = below(2) * below(9);
    // With a divisor that is near 0, or 0, somewhere.
    const bool divides = round % 3 == 0;
    const double share = divides ? (round % 2 ? -1.0 / (1 + below(90) + 0.5) : within(-0.1, 0.1)) : 0;
    const AffineMap map{{within(-2, 2), within(-2, 2), within(-9, 49), within(-2, 2), within(-2, 2),
                         within(-9, 49), share, divides && round % 4 ? within(-0.1, 0.1) : 0},
                        divides,
                        round % 2 ? Interpolation::bilinear : Interpolation::bicubic,
                        {left + width + below(5), top + height + below(5)},
                        left,
                        top,
                        {7, 77, 177}};
    std::vector<int32_t> columns(1 + below(50));
    for (int32_t& column : columns) column = below(60) - 1;
    const int32_t row = below(60);
    std::vector<uint8_t> got(columns.size() * base::kPixelBytes), expected(got.size());
    map_smooth(map, window, columns, row, got.data());
    scalar::map_smooth(map, window, columns, row, expected.data());
    for (size_t i = 0; i < got.size(); i += base::kPixelBytes)
      ASSERT_EQ(std::memcmp(&got[i], &expected[i], 3), 0)
          << "round " << round << ", pixel " << i / base::kPixelBytes;
  }
}

TEST_P(MapAndBlurTest, Blurs) {
  for (int round = 0; round < 300; ++round) {
    const size_t down = 1 + 2 * below(6), along = 1 + 2 * below(6), width = along + below(40);
    const std::vector<uint8_t> rows = random_bytes(down * width * base::kPixelBytes);
    std::vector<float> weights(std::max(down, along));
    for (float& weight : weights) weight = static_cast<float>(within(0, 2.0 / down));
    const auto stride = static_cast<ptrdiff_t>(width) * base::kPixelBytes;
    std::vector<float> got(width * base::kPixelBytes), expected(got.size());
    weigh_down(rows.data(), stride, std::span(weights).first(down), 0, got.size(), got.data());
    scalar::weigh_down(rows.data(), stride, std::span(weights).first(down), 0, got.size(), expected.data());
    ASSERT_EQ(got, expected);
    std::vector<uint8_t> got_bytes((width - along + 1) * base::kPixelBytes), expected_bytes(got_bytes.size());
    weigh_along(got.data(), base::kPixelBytes, std::span(weights).first(along), 0, got_bytes.size(),
                got_bytes.data());
    scalar::weigh_along(got.data(), base::kPixelBytes, std::span(weights).first(along), 0, got_bytes.size(),
                        expected_bytes.data());
    ASSERT_EQ(got_bytes, expected_bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, MapAndBlurTest, testing::ValuesIn(test::instruction_sets()),
                         test::set_name);

TEST(Noise, IsNormalAndAFunctionOfItsKey) {
  EXPECT_EQ(normal_block(5, 6), normal_block(5, 6));
  EXPECT_NE(normal_block(5, 6), normal_block(5, 7));
  EXPECT_NE(normal_block(5, 6), normal_block(uint64_t{5} << 32, 6));
  double sum = 0, squares = 0, fourth = 0;
  const int n = 100'000;
  for (int i = 0; i < n; ++i)
    for (const double v : normal_block(42, i)) {
      ASSERT_TRUE(std::isfinite(v));
      sum += v, squares += v * v, fourth += v * v * v * v;
    }
  EXPECT_NEAR(sum / (4 * n), 0, 0.006);
  EXPECT_NEAR(squares / (4 * n), 1, 0.01);
  EXPECT_NEAR(fourth / (4 * n), 3, 0.06);
}

TEST(Erase, TouchesItsRectangleAlone) {
  const RandomErasing numbers{.value = {1, 2, 3}}, noise{.value = {}};
  const base::Rect box{2, 1, 3, 2};
  std::vector<float> row(3 * 5 * 6, 9.0f);
  const Erasure erasures[] = {{box, &noise, 77}, {{2, 1, 3, 1}, &numbers, 0}};
  erase(erasures, {6, 5}, base::DType::f32, row.data());
  for (int c = 0; c < 3; ++c)
    for (int y = 0; y < 5; ++y)
      for (int x = 0; x < 6; ++x) {
        const float value = row[(c * 5 + y) * 6 + x];
        if (x < 2 || x >= 5 || y < 1 || y >= 3)
          EXPECT_EQ(value, 9.0f);
        else if (y == 1)
          EXPECT_EQ(value, c + 1.0f);
        else
          EXPECT_EQ(value, normal_block(77, (c * 6 + 3 + x - 2) / 4)[(c * 6 + 3 + x - 2) % 4]);
      }
}

}  // namespace
}  // namespace millrace::transforms
