// The operations of single pixels: what they make of known bytes, and that rows on the CPU are what pixel()
// makes, which is what the GPU's passes call.
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "base/geometry.h"
#include "base/philox.h"
#include "transforms/color_rows.h"
#include "transforms/pixel_buffer.h"

namespace millrace::transforms {
namespace {

std::vector<uint8_t> changed(AugmentKind kind, double value, std::vector<uint8_t> row) {
  const ColorStep step{kind, value};
  const auto width = static_cast<int32_t>(row.size() / base::kPixelBytes);
  row.resize(row.size() + PixelBuffer::kRowSlack);
  change_colors({&step, 1}, row.data(), width, row.data());
  return row;
}

// The first three bytes of a pixel.
void expect_pixel(AugmentKind kind, double value, std::array<uint8_t, 3> in, std::array<uint8_t, 3> out) {
  const auto made = changed(kind, value, {in[0], in[1], in[2], 0});
  EXPECT_EQ((std::array{made[0], made[1], made[2]}), out) << name_of(kind) << " " << value;
}

TEST(PixelOps, KnownBytes) {
  expect_pixel(AugmentKind::brightness, 0.5, {200, 3, 255}, {100, 1, 127});
  expect_pixel(AugmentKind::saturation, 0, {255, 0, 0}, {76, 76, 76});
  expect_pixel(AugmentKind::hue, 1 / 3.0, {255, 0, 0}, {0, 255, 0});
  expect_pixel(AugmentKind::permute, 0b00'01'10, {1, 2, 3}, {3, 2, 1});
  expect_pixel(AugmentKind::posterize, 3, {255, 31, 32}, {224, 0, 32});
  expect_pixel(AugmentKind::solarize, 127.5, {127, 128, 255}, {127, 127, 0});
  expect_pixel(AugmentKind::solarize_add, 110, {0, 127, 128}, {110, 237, 128});
  expect_pixel(AugmentKind::solarize_add, -20, {10, 127, 128}, {0, 107, 128});
  expect_pixel(AugmentKind::invert, 0, {0, 128, 255}, {255, 127, 0});
}

TEST(PixelOps, RowsAreWhatPixelMakes) {
  std::vector<uint8_t> row(4 * 4096);
  base::Philox random({1, 2, 3}, 4);
  for (uint8_t& v : row) v = static_cast<uint8_t>(random.next_u32());
  int found = 0;
  for (size_t number = 0; number < kAugmentNames.size(); ++number) {
    const auto kind = static_cast<AugmentKind>(number);
    for (const double value : {0.0, 0.3, 1.0, 2.0, 6.0, 100.0}) {
      if (kind == AugmentKind::posterize && value > 8) continue;
      PixelOps::with(kind, [&]<class Op>(Op) {
        ++found;
        const auto made = changed(kind, value, row);
        for (size_t i = 0; i < row.size(); i += base::kPixelBytes) {
          const Rgb8 p = Op::pixel({row[i], row[i + 1], row[i + 2]}, Op::amount(value));
          ASSERT_EQ((std::array<int32_t, 3>{made[i], made[i + 1], made[i + 2]}), (std::array{p.r, p.g, p.b}))
              << name_of(kind) << " " << value << " of pixel " << i / base::kPixelBytes;
        }
      });
    }
  }
  EXPECT_EQ(found, 8 * 6 - 1);
}

TEST(PixelOps, NamesAreInTheOrderOfTheKinds) {
  EXPECT_EQ(name_of(AugmentKind::rotate), std::string_view("rotate"));
  EXPECT_EQ(name_of(AugmentKind::permute), std::string_view("permute"));
  EXPECT_EQ(name_of(AugmentKind::gaussian_blur), std::string_view("gaussian_blur"));
}

}  // namespace
}  // namespace millrace::transforms
