// Every instruction set that this machine has gives the bits of the scalar kernels.
#include "transforms/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "hwy/highway.h"
#include "transforms/pixel_buffer.h"
#include "test_parts.h"

namespace millrace::transforms {
namespace {

class KernelTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  // Memory of exactly the pixels' size, so that the address sanitizer sees any read outside.
  std::vector<uint8_t> random_row(int32_t width) {
    std::vector<uint8_t> row(size_t(width) * base::kPixelBytes);
    for (uint8_t& byte : row)
      byte = static_cast<uint8_t>(random_() % 4 ? random_() : (random_() % 2 ? 0 : 255));
    return row;
  }
  int32_t below(int32_t n) { return static_cast<int32_t>(random_() % n); }
  Interpolation any_interpolation() { return below(2) ? Interpolation::bilinear : Interpolation::bicubic; }

  Taps random_taps(int32_t in_size) {
    const int32_t out_size = 1 + below(90);
    std::vector<int32_t> indices(1 + below(70));
    for (int32_t& i : indices) i = below(8) ? below(out_size) : -1;
    Taps taps;
    make_taps({any_interpolation(), in_size, out_size, indices, 0, in_size, below(2) == 1, below(2) == 1},
              taps);
    return taps;
  }

  // Compares the three bytes that mean something.
  static void expect_same_pixels(const uint8_t* a, const uint8_t* b, int32_t width) {
    for (int32_t x = 0; x < width; ++x)
      ASSERT_EQ(std::memcmp(a + x * base::kPixelBytes, b + x * base::kPixelBytes, 3), 0)
          << "pixel " << x << " of " << width;
  }

  std::mt19937 random_{GetParam() > 0 ? 5u : 6u};
};

TEST_P(KernelTest, WeighTaps) {
  for (int round = 0; round < 2000; ++round) {
    Taps taps = random_taps(1 + below(round % 10 ? 100 : 3000));
    const auto bytes = [&] {
      return std::string(reinterpret_cast<const char*>(taps.weights.data()),
                         taps.weights.size() * sizeof(TapPair));
    };
    const std::string got = bytes();
    std::fill(taps.weights.begin(), taps.weights.end(), TapPair{});
    scalar::weigh_taps(taps);
    ASSERT_EQ(got, bytes()) << "round " << round;
  }
}

TEST_P(KernelTest, ResampleRows) {
  for (int round = 0; round < 600; ++round) {
    const Taps taps = random_taps(1 + below(100));
    const int n = 1 + below(kRowGroup);
    std::vector<std::vector<uint8_t>> rows;
    PixelBuffer got_buffer, expected_buffer;
    const base::ImageView got = got_buffer.resize(taps.count, kRowGroup),
                          expected = expected_buffer.resize(taps.count, kRowGroup);
    const uint8_t* in[kRowGroup];
    uint8_t *got_rows[kRowGroup], *expected_rows[kRowGroup];
    for (int r = 0; r < n; ++r) {
      rows.push_back(random_row(taps.in_size));
      in[r] = rows.back().data();
      got_rows[r] = got.row(r);
      expected_rows[r] = expected.row(r);
    }
    resample_rows(in, n, taps, got_rows);
    scalar::resample_rows(in, n, taps, expected_rows);
    for (int r = 0; r < n; ++r) expect_same_pixels(got_rows[r], expected_rows[r], taps.count);
  }
}

// Thousands of white pixels per output: the sums of the weights' low parts must not run over.
TEST_P(KernelTest, VeryManyTaps) {
  const std::vector<int32_t> first{0};
  for (const int32_t in_size : {3000, 4110, 4112, 9000, 20000}) {
    Taps taps;
    make_taps({Interpolation::bicubic, in_size, 1, first, 0, in_size, false}, taps);
    const std::vector<uint8_t> white(size_t(in_size) * base::kPixelBytes, 255);
    const uint8_t* const row = white.data();
    PixelBuffer buffer;
    uint8_t* const out = buffer.resize(32, 1).data;
    resample_rows(&row, 1, taps, &out);
    EXPECT_EQ(out[1], 255) << in_size;
    const std::vector<const uint8_t*> rows(2 * taps.pairs, row);
    blend_rows(rows.data(), taps.of(0).data(), taps.pairs, 32, out);
    EXPECT_EQ(out[1], 255) << in_size;
  }
}

std::vector<float> side_by_side_of(const std::vector<float>& planes) {
  const size_t width = planes.size() / 3;
  std::vector<float> result(planes.size());
  for (size_t i = 0; i < result.size(); ++i) result[i] = planes[i % 3 * width + i / 3];
  return result;
}

TEST_P(KernelTest, BlendRows) {
  const ValueTable plain =
      make_value_table({OutputType::f32}, Normalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}});
  ValueTable table = plain;
  table.math_is_exact = math_gives_table(table);
  for (int round = 0; round < 600; ++round) {
    const Taps taps = random_taps(1 + below(60));
    const int32_t width = 1 + below(100), output = below(taps.count);
    std::vector<std::vector<uint8_t>> rows;
    std::vector<const uint8_t*> in;
    for (int t = 0; t < 2 * taps.pairs; ++t) rows.push_back(random_row(width));
    for (const auto& row : rows) in.push_back(row.data());
    PixelBuffer got_buffer, expected_buffer;
    uint8_t *got = got_buffer.resize(width, 1).data, *expected = expected_buffer.resize(width, 1).data;
    blend_rows(in.data(), taps.of(output).data(), taps.pairs, width, got);
    scalar::blend_rows(in.data(), taps.of(output).data(), taps.pairs, width, expected);
    expect_same_pixels(got, expected, width);

    if (!table.math_is_exact) continue;
    std::vector<float> got_values(3 * width), expected_values(3 * width);
    void* const got_planes[3] = {&got_values[0], &got_values[width], &got_values[2 * width]};
    void* const expected_planes[3] = {&expected_values[0], &expected_values[width],
                                      &expected_values[2 * width]};
    blend_to_planes(in.data(), taps.of(output).data(), taps.pairs, width, table, got_planes);
    scalar::blend_to_planes(in.data(), taps.of(output).data(), taps.pairs, width, table, expected_planes);
    ASSERT_EQ(got_values, expected_values);

    ValueTable side_by_side = table;
    side_by_side.interleaved = true;
    std::vector<float> pixels(3 * width);
    void* const elements[3] = {&pixels[0], &pixels[1], &pixels[2]};
    blend_to_planes(in.data(), taps.of(output).data(), taps.pairs, width, side_by_side, elements);
    ASSERT_EQ(pixels, side_by_side_of(expected_values));
  }
}

TEST_P(KernelTest, StoreRowGivesTheTable) {
  for (const OutputType type :
       {OutputType::u8, OutputType::f16, OutputType::bf16, OutputType::f32, OutputType::f64})
    for (const bool multiply : {false, true})
      for (const int32_t width : {1, 7, 15, 16, 17, 33, 224}) {
        std::optional<Normalize> normalize;
        if (type != OutputType::u8 && width % 2) normalize = Normalize{{0.5, 0.4, 0.3}, {0.2, 0.225, 3}};
        ValueTable table = make_value_table({type, multiply}, normalize);
        table.math_is_exact = math_gives_table(table);
        const std::vector<uint8_t> row = random_row(width);
        const size_t plane = width * base::dtype_bytes(table.type);
        std::vector<std::byte> got(3 * plane), expected(3 * plane);
        void* const got_planes[3] = {&got[0], &got[plane], &got[2 * plane]};
        void* const expected_planes[3] = {&expected[0], &expected[plane], &expected[2 * plane]};
        store_row(row.data(), width, table, got_planes);
        scalar::store_row(row.data(), width, table, expected_planes);
        ASSERT_EQ(got, expected) << base::dtype_name(table.type) << " width " << width;

        table.interleaved = true;
        const size_t element = base::dtype_bytes(table.type);
        void* const elements[3] = {&got[0], &got[element], &got[2 * element]};
        store_row(row.data(), width, table, elements);
        for (size_t i = 0; i < size_t(3) * width; ++i)
          ASSERT_EQ(std::memcmp(&got[i * element], &expected[i % 3 * plane + i / 3 * element], element), 0)
              << base::dtype_name(table.type) << " width " << width << " element " << i;
      }
}

TEST_P(KernelTest, MixToPlanes) {
  for (const bool usual : {true, false})
    for (const int32_t width : {1, 7, 15, 16, 17, 33, 224}) {
      const Normalize constants = usual ? Normalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}
                                        : Normalize{{0.1, 0.2, 0.3}, {0.7, 1e-6, 3e7}};
      ValueTable table = make_value_table({OutputType::f32}, constants);
      table.math_is_exact = math_gives_table(table);
      const std::vector<uint8_t> own = random_row(width), other = random_row(width);
      const float share = static_cast<float>(below(1001)) / 1000;
      const auto plane = static_cast<size_t>(width);
      std::vector<float> got(3 * plane), expected(3 * plane);
      void* const got_planes[3] = {&got[0], &got[plane], &got[2 * plane]};
      void* const expected_planes[3] = {&expected[0], &expected[plane], &expected[2 * plane]};
      mix_to_planes(own.data(), other.data(), width, table, share, 1 - share, got_planes);
      scalar::mix_to_planes(own.data(), other.data(), width, table, share, 1 - share, expected_planes);
      ASSERT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0) << "width " << width;
    }
}

// Not a promise to callers, but to ourselves: the fast way must not be lost unseen for the usual constants.
TEST_P(KernelTest, ArithmeticIsExactForUsualConstants) {
  if (GetParam() != HWY_AVX2 && GetParam() != HWY_AVX3) GTEST_SKIP() << "needs fused multiply-add";
  const std::optional<Normalize> usual[] = {std::nullopt,
                                            Normalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}},
                                            Normalize{{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}},
                                            Normalize{{0.4914, 0.4822, 0.4465}, {0.2023, 0.1994, 0.2010}}};
  for (const bool multiply : {false, true})
    for (const auto& normalize : usual)
      EXPECT_TRUE(math_gives_table(make_value_table({OutputType::f32, multiply}, normalize)));
}

INSTANTIATE_TEST_SUITE_P(Targets, KernelTest, testing::ValuesIn(test::instruction_sets()), test::set_name);

}  // namespace
}  // namespace millrace::transforms
