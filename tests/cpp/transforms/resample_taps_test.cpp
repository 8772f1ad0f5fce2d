#include "transforms/resample_taps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace millrace::transforms {
namespace {

std::vector<int32_t> range(int32_t n) {
  std::vector<int32_t> list(n);
  std::iota(list.begin(), list.end(), 0);
  return list;
}

Taps taps_of(Interpolation interpolation, int32_t in, int32_t out, bool mirrored = false) {
  Taps taps;
  const auto indices = range(out);
  make_taps({interpolation, in, out, indices, 0, in, mirrored}, taps);
  return taps;
}

// Weight of each input for one output.
std::vector<int32_t> dense(const Taps& taps, int32_t output) {
  std::vector<int32_t> weights(taps.in_size + 1);
  int32_t x = taps.start[output];
  for (const TapPair& pair : taps.of(output))
    for (int i = 0; i < 2; ++i, ++x) {
      const int32_t weight = pair.high[i] * (1 << kLowBits) + pair.low[i];
      if (weight != 0) weights.at(x) += weight;
    }
  EXPECT_EQ(weights.back(), 0) << "a tap with a weight lies behind the input";
  weights.pop_back();
  return weights;
}

TEST(Taps, HalvingWithTheTriangle) {
  // Centre 2 of 8 at stretch 2: distances 0.75, 0.25, 0.25, 0.75 -> 1/8, 3/8, 3/8, 1/8.
  const int32_t eighth = (1 << kWeightBits) / 8;
  EXPECT_EQ(dense(taps_of(Interpolation::bilinear, 8, 4), 1),
            (std::vector<int32_t>{0, eighth, 3 * eighth, 3 * eighth, eighth, 0, 0, 0}));
  // At the border the rest is scaled up to one: 3/7, 3/7, 1/7.
  EXPECT_EQ(dense(taps_of(Interpolation::bilinear, 8, 4), 0),
            (std::vector<int32_t>{1797559, 1797559, 599186, 0, 0, 0, 0, 0}));
}

TEST(Taps, CubicHasNegativeWeightsThatSplitExactly) {
  const auto weights =
      dense(taps_of(Interpolation::bicubic, 8, 16), 5);  // centre 2.75, distances 1.25, 0.25, 0.75, 1.75
  EXPECT_EQ(weights, (std::vector<int32_t>{0, -294912, 3637248, 950272, -98304, 0, 0, 0}));
  EXPECT_LT(*std::min_element(weights.begin(), weights.end()), 0);
}

TEST(Taps, TensorsHaveWeightsOfSixteenBits) {
  // The largest weight, 3/7 at the border, leaves room for 16 fractional bits: 3/7 * 2^16 < 2^15.
  EXPECT_EQ(tensor_weight_bits(Interpolation::bilinear, 8, 4), 16);
  EXPECT_EQ(tensor_weight_bits(Interpolation::bilinear, 8, 8), 14);  // a weight of one
  EXPECT_EQ(tensor_weight_bits(Interpolation::bilinear, 1 << 20, 1), kWeightBits);
  Taps taps;
  const auto indices = range(4);
  make_taps({Interpolation::bilinear, 8, 4, indices, 0, 8, false, true}, taps);
  EXPECT_EQ(dense(taps, 0), (std::vector<int32_t>{28087 << 6, 28087 << 6, 9362 << 6, 0, 0, 0, 0, 0}));
  EXPECT_EQ(dense(taps, 1), dense(taps_of(Interpolation::bilinear, 8, 4), 1));  // eighths need no more bits
}

TEST(Taps, TensorsOfEverySizeSumToOneButForRounding) {
  for (const auto interpolation : {Interpolation::bilinear, Interpolation::bicubic})
    for (int32_t in = 1; in < 40; in += 3)
      for (int32_t out = 1; out < 40; out += 2) {
        Taps taps;
        const auto indices = range(out);
        make_taps({interpolation, in, out, indices, 0, in, true, true}, taps);
        const int lost = kWeightBits - tensor_weight_bits(interpolation, in, out);
        for (int32_t o = 0; o < out; ++o) {
          const auto weights = dense(taps, o);
          EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), int64_t{0}), 1 << kWeightBits,
                      int64_t{in} << lost);
          for (const int32_t weight : weights) EXPECT_EQ(weight % (1 << lost), 0);
          EXPECT_LT(*std::max_element(weights.begin(), weights.end()) >> lost, 1 << 15);
        }
      }
}

TEST(Taps, EverySizeSumsToOneAndStaysInside) {
  for (const auto interpolation : {Interpolation::bilinear, Interpolation::bicubic})
    for (int32_t in = 1; in < 40; in += 3)
      for (int32_t out = 1; out < 40; out += 2) {
        const Taps taps = taps_of(interpolation, in, out);
        for (int32_t o = 0; o < out; ++o) {
          const auto weights = dense(taps, o);
          EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), int64_t{0}), 1 << kWeightBits, in)
              << in << " to " << out;
        }
      }
}

TEST(Taps, MirroredReadsTheInputBackwards) {
  const Taps plain = taps_of(Interpolation::bicubic, 37, 23),
             mirrored = taps_of(Interpolation::bicubic, 37, 23, true);
  for (int32_t o = 0; o < 23; ++o) {
    auto weights = dense(mirrored, o);
    std::reverse(weights.begin(), weights.end());
    EXPECT_EQ(weights, dense(plain, o));
  }
}

TEST(Taps, AWindowSeesTheSameWeights) {
  const Taps all = taps_of(Interpolation::bilinear, 50, 20);
  const std::vector<int32_t> indices{9, 7, -1, 8};
  const int32_t begin = support_of(Interpolation::bilinear, 50, 20, 7).start;
  const int32_t end = support_of(Interpolation::bilinear, 50, 20, 9).end();
  Taps some;
  make_taps({Interpolation::bilinear, 50, 20, indices, begin, end - begin, false}, some);
  for (int32_t i = 0; i < 4; ++i) {
    std::vector<int32_t> expected(end - begin);
    if (!is_fill(indices[i])) {
      const auto full = dense(all, indices[i]);
      expected.assign(full.begin() + begin, full.begin() + end);
    }
    EXPECT_EQ(dense(some, i), expected);
  }
}

}  // namespace
}  // namespace millrace::transforms
