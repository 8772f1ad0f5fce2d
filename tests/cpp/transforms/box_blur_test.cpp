// Every instruction set that this machine has gives the bits of the scalar box blur.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "hwy/highway.h"
#include "transforms/box_blur_kernel.h"
#include "transforms/pixel_buffer.h"
#include "test_parts.h"

namespace millrace::transforms {
namespace {

class BoxBlurTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(BoxBlurTest, EqualsTheScalarOne) {
  std::mt19937 random(11);
  PixelBuffer input, expected, got;
  for (int round = 0; round < 120; ++round) {
    const auto width = static_cast<int32_t>(1 + random() % 70),
               height = static_cast<int32_t>(1 + random() % 40);
    const base::ImageView in = input.resize(width, height), plain = expected.resize(width, height),
                          fast = got.resize(width, height);
    for (int32_t y = 0; y < height; ++y)
      for (int32_t i = 0; i < width * base::kPixelBytes; ++i) in.row(y)[i] = static_cast<uint8_t>(random());
    Box box{static_cast<int32_t>(random() % 12), 0, 0};
    const uint32_t one = 1u << kBoxFractionBits, pixels = static_cast<uint32_t>(2 * box.reach + 1);
    box.inner = one / (pixels + 1) + random() % (one / pixels - one / (pixels + 1));
    box.outer = (one - pixels * box.inner) / 2;
    scalar::blur_columns(in, box, plain);
    blur_columns(in, box, fast);
    for (int32_t y = 0; y < height; ++y)
      ASSERT_EQ(std::memcmp(fast.row(y), plain.row(y), size_t(width) * base::kPixelBytes), 0)
          << "row " << y << " of " << height << ", width " << width << ", reach " << box.reach;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, BoxBlurTest, testing::ValuesIn(test::instruction_sets()), test::set_name);

}  // namespace
}  // namespace millrace::transforms
