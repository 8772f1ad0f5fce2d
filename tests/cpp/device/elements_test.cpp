// Numbers in and out of memory: narrow floats equal those of the CPU transforms, and eight at a time equal
// one at a time.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "base/half.h"
#include "test_images.h"

namespace millrace::device {
namespace {

TEST(Elements, EveryNarrowFloatComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float half = float_of_half(bits), brain = float_of(bits << 16);
    EXPECT_EQ(bits_of(half), bits_of(base::from_f16(static_cast<uint16_t>(bits)))) << bits;
    EXPECT_TRUE(half != half || half_of(half) == bits) << bits;
    EXPECT_TRUE(brain != brain || bfloat_of(brain) == bits) << bits;
  }
}

TEST(Elements, RoundingIsThatOfTheCpuTransforms) {
  std::mt19937 random(5);
  for (int i = 0; i < 2'000'000; ++i) {
    const float v = float_of(static_cast<uint32_t>(random()));
    if (v != v) continue;
    ASSERT_EQ(half_of(v), base::to_f16(v)) << v;
    ASSERT_EQ(bfloat_of(v), base::to_bf16(v)) << v;
  }
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float v :
       {65504.0f, 65519.9f, 65520.0f, 1e9f, infinity, 0x1p-24f, 0x1p-25f, 0x1.8p-25f, 0x1p-14f})
    EXPECT_EQ(half_of(v), base::to_f16(v)) << v;
}

TEST(Elements, GroupsEqualSingleElements) {
  for (const base::DType type : kImageTypes)
    for (const bool channels_last : {false, true})
      for (const int32_t c : {1, 3})
        for (const size_t offset : {0, 4, 8}) {
          TestImages from(type, 2, c, 5, 16, channels_last, offset),
              to(type, 2, c, 5, 16, !channels_last, offset);
          from.fill();
          for (int64_t n = 0; n < 2; ++n)
            for (int64_t pixel = 0; pixel + kGroupPixels <= from.images.pixels(); pixel += 3) {
              PixelGroup group;
              load_group(from.images, n, pixel, kGroupPixels, group);
              store_group(to.images, n, pixel, kGroupPixels, group);
              for (int k = 0; k < kGroupPixels; ++k)
                for (int32_t channel = 0; channel < c; ++channel)
                  ASSERT_EQ(to.at(n, pixel + k, channel), from.at(n, pixel + k, channel))
                      << base::dtype_name(type) << " " << c << " " << offset;
            }
        }
}

}  // namespace
}  // namespace millrace::device
