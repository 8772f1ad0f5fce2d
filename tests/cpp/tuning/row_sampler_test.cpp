// Sampling rows: layouts, every number of small rows, spread-out runs of large ones, strides, padding,
// hashes.
#include "tuning/row_sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "millrace/error.h"

namespace millrace::tuning {
namespace {

BatchView view_of(const void* data, base::DType type, std::vector<int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0; stride *= sizes[d]) strides[d] = stride;
  return {static_cast<const uint8_t*>(data), type, std::move(sizes), std::move(strides)};
}

FieldLayout layout(base::DType type, std::vector<int64_t> sizes) {
  return layout_of(view_of(nullptr, type, std::move(sizes)));
}

TEST(Layout, ByTypeAndShape) {
  EXPECT_EQ(layout(base::DType::u8, {8, 3, 32, 32}), (FieldLayout{1, 3, true, false, false}));
  EXPECT_EQ(layout(base::DType::f32, {8, 32, 32, 3}), (FieldLayout{3, 3, true, false, false}));
  EXPECT_EQ(layout(base::DType::f32, {8, 1, 28, 28}), (FieldLayout{1, 1, false, false, false}));
  EXPECT_EQ(layout(base::DType::f32, {8, 16, 3, 32, 32}), (FieldLayout{2, 3, true, false, false}));
  EXPECT_EQ(layout(base::DType::f64, {8, 20}), (FieldLayout{1, 20, false, false, false}));
  EXPECT_EQ(layout(base::DType::f32, {8, 5000}), FieldLayout{});
  EXPECT_EQ(layout(base::DType::f32, {8}), FieldLayout{});
  EXPECT_EQ(layout(base::DType::i64, {8}), (FieldLayout{-1, 1, false, true, false}));
  EXPECT_EQ(layout(base::DType::i64, {8, 2048}), (FieldLayout{-1, 1, false, true, true}));
  EXPECT_EQ(layout(base::DType::i32, {8, 6}), (FieldLayout{1, 6, false, true, false}));
  EXPECT_EQ(layout(base::DType::u8, {8, 784}), FieldLayout{});
  EXPECT_EQ(layout(base::DType::b8, {8}), (FieldLayout{-1, 1, false, true, false}));
}

TEST(SampleRows, EveryNumberOfSmallRows) {
  std::vector<float> data(4 * 2 * 3 * 5);
  std::iota(data.begin(), data.end(), 0.0f);
  const BatchView view = view_of(data.data(), base::DType::f32, {4, 2, 3, 5});
  SampledBatch sampled;
  sample_rows(view, layout_of(view), {}, 9, sampled);
  ASSERT_EQ(sampled.rows.size(), 4u);
  EXPECT_EQ(sampled.rows[0].each, 15u);
  EXPECT_EQ(sampled.values, std::vector<double>(data.begin(), data.end()));
}

TEST(SampleRows, ChannelsLastAndCropsReadTheSameNumbers) {
  std::vector<float> data(2 * 6 * 7 * 3);
  std::iota(data.begin(), data.end(), 0.0f);
  // (2, 3, 4, 5) within (2, 6, 7, 3): a crop of pictures whose channels lie together.
  const BatchView crop{reinterpret_cast<const uint8_t*>(data.data() + 1),
                       base::DType::f32,
                       {2, 3, 4, 5},
                       {6 * 7 * 3, 1, 7 * 3, 3}};
  SampledBatch sampled;
  sample_rows(crop, layout_of(crop), {}, 0, sampled);
  std::vector<double> expected;
  for (int n = 0; n < 2; ++n)
    for (int c = 0; c < 3; ++c)
      for (int y = 0; y < 4; ++y)
        for (int x = 0; x < 5; ++x) expected.push_back(1 + n * 126 + c + y * 21 + x * 3);
  EXPECT_EQ(sampled.values, expected);
}

TEST(SampleRows, LargeRowsInRunsThatTurn) {
  std::vector<int32_t> data(1000 * 10'000);
  std::iota(data.begin(), data.end(), 0);
  const BatchView view = view_of(data.data(), base::DType::i32, {1000, 10'000});
  std::set<double> seen;
  for (uint64_t turn = 0; turn < 3; ++turn) {
    SampledBatch sampled, again;
    sample_rows(view, FieldLayout{}, {100, 256}, turn, sampled);
    sample_rows(view, FieldLayout{}, {100, 256}, turn, again);
    EXPECT_EQ(sampled.values, again.values);
    ASSERT_EQ(sampled.rows.size(), 100u);
    for (size_t i = 0; i < 100; ++i) {
      EXPECT_EQ(sampled.rows[i].each, 256u);
      for (size_t v = 0; v < 256; ++v) {
        const double x = sampled.values[sampled.rows[i].begin + v];
        EXPECT_EQ(std::floor(x / 10'000), static_cast<double>(i * 10));
        if (v % 16 != 0) {
          EXPECT_EQ(x, sampled.values[sampled.rows[i].begin + v - 1] + 1);
        }
      }
    }
    seen.insert(sampled.values[0]);
  }
  EXPECT_EQ(seen.size(), 3u);
}

TEST(SampleRows, TypesAreNumbers) {
  const auto one = [](const auto& data, base::DType type) {
    SampledBatch sampled;
    sample_rows(view_of(data.data(), type, {static_cast<int64_t>(data.size())}), {}, {}, 0, sampled);
    return sampled.values;
  };
  EXPECT_EQ(one(std::vector<uint16_t>{0x3c00, 0xc000, 0x0001, 0x7c00}, base::DType::f16),
            (std::vector<double>{1, -2, 0x1p-24, INFINITY}));
  EXPECT_TRUE(std::isnan(one(std::vector<uint16_t>{0x7e00}, base::DType::f16)[0]));
  EXPECT_EQ(one(std::vector<uint16_t>{0x3f80, 0xc000}, base::DType::bf16), (std::vector<double>{1, -2}));
  EXPECT_EQ(one(std::vector<uint8_t>{0, 1, 255}, base::DType::b8), (std::vector<double>{0, 1, 1}));
  EXPECT_EQ(one(std::vector<int8_t>{-128, 127}, base::DType::i8), (std::vector<double>{-128, 127}));
  EXPECT_EQ(one(std::vector<uint64_t>{1ull << 63}, base::DType::u64), std::vector<double>{0x1p63});
  EXPECT_THROW(one(std::vector<uint64_t>{1}, base::DType::c64), Error);
}

TEST(SampleRows, PaddingAtEitherEnd) {
  std::vector<int64_t> data(7 * 40);
  std::iota(data.begin(), data.end(), 1);
  std::fill(data.begin() + 30, data.begin() + 40, 0);    // ten behind
  std::fill(data.begin() + 80, data.begin() + 85, 9);    // five before
  std::fill(data.begin() + 120, data.begin() + 160, 0);  // nothing else
  data[199] = 0;                                         // one is no run
  std::fill(data.begin() + 200, data.begin() + 240, 1);  // a mask of a whole row
  std::fill(data.begin() + 240, data.begin() + 244, 0);  // a mask of one that is padded before
  std::fill(data.begin() + 244, data.end(), 1);
  const BatchView view = view_of(data.data(), base::DType::i64, {7, 40});
  SampledBatch sampled;
  sample_rows(view, layout_of(view), {}, 0, sampled);
  std::vector<double> lengths;
  for (const SampledRow& row : sampled.rows) lengths.push_back(row.length);
  EXPECT_EQ(lengths, (std::vector<double>{30, 40, 35, 0, 40, 40, 36}));
}

TEST(SampleRows, EqualRowsHaveEqualHashes) {
  std::vector<uint8_t> data(3 * 20'000);
  std::iota(data.begin(), data.end(), 0);
  std::copy(data.begin(), data.begin() + 20'000, data.begin() + 40'000);
  SampledBatch sampled;
  sample_rows(view_of(data.data(), base::DType::u8, {3, 100, 200}), {}, {}, 0, sampled);
  EXPECT_EQ(sampled.rows[0].hash, sampled.rows[2].hash);
  EXPECT_NE(sampled.rows[0].hash, sampled.rows[1].hash);
}

TEST(SampleRows, NothingInThem) {
  SampledBatch sampled;
  sample_rows(view_of(nullptr, base::DType::f32, {0, 3, 4, 4}), {1, 3, true, false, false}, {}, 0, sampled);
  EXPECT_TRUE(sampled.rows.empty());
  sample_rows(view_of(nullptr, base::DType::f32, {2, 3, 0, 4}), {1, 3, true, false, false}, {}, 0, sampled);
  ASSERT_EQ(sampled.rows.size(), 2u);
  EXPECT_EQ(sampled.rows[0].each, 0u);
}

}  // namespace
}  // namespace millrace::tuning
