// Every instruction set that this machine has gives the bits of the scalar kernel of sharpness, which rounds
// as fractions do.
#include "transforms/sharpen_kernel.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/geometry.h"
#include "hwy/highway.h"
#include "test_parts.h"

namespace millrace::transforms {
namespace {

using Pixels = std::vector<uint8_t>;

class SharpenKernelTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

// Memory of exactly the rows' size, so that the address sanitizer sees any read outside.
TEST_P(SharpenKernelTest, EqualsTheScalarOne) {
  std::mt19937 random(5);
  for (int round = 0; round < 600; ++round) {
    const auto width = static_cast<int32_t>(1 + random() % 90);
    const bool at_edge = random() % 8 == 0;
    const float factor = static_cast<float>(random() % 4000) / 997 - 1;
    std::vector<Pixels> rows(3, Pixels(size_t(width) * base::kPixelBytes));
    for (Pixels& row : rows)
      for (uint8_t& byte : row)
        byte = static_cast<uint8_t>(random() % 3 ? random() : (random() % 2 ? 0 : 255));
    Pixels expected(rows[0].size()), got(rows[0].size());
    scalar::sharpen_row(rows[0].data(), rows[1].data(), rows[2].data(), width, at_edge, factor,
                        expected.data());
    sharpen_row(rows[0].data(), rows[1].data(), rows[2].data(), width, at_edge, factor, got.data());
    for (size_t i = 0; i < got.size(); ++i)
      if (i % base::kPixelBytes != 3) {
        ASSERT_EQ(got[i], expected[i]) << "byte " << i << " of " << width << " pixels";
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SharpenKernelTest, testing::ValuesIn(test::instruction_sets()),
                         test::set_name);

TEST(SharpenKernel, MeansAreRoundedToTheNearest) {
  for (int level = 0; level < 256; ++level)
    for (int others = 0; others < 256; ++others) {
      const Pixels line(12, static_cast<uint8_t>(others));
      Pixels middle = line, out(12);
      for (int c = 4; c < 8; ++c) middle[c] = static_cast<uint8_t>(level);
      scalar::sharpen_row(line.data(), middle.data(), line.data(), 3, false, 0, out.data());
      ASSERT_EQ(out[4], static_cast<uint8_t>((8 * others + 5 * level) / 13.0 + 0.5))
          << level << " " << others;
    }
}

}  // namespace
}  // namespace millrace::transforms
