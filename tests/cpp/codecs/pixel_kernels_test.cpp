// idct_group and upsample_color against plain scalar versions of libjpeg's arithmetic, on every instruction
// set.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include <gtest/gtest.h>

#include "codecs/block_reader.h"
#include "codecs/idct.h"
#include "codecs/upsample_color.h"
#include "jpeg_files.h"

namespace millrace::codecs {
namespace {

constexpr size_t kSlack = UpsampleColor::kSlack;

// One pass of the slow-but-accurate integer DCT over eight values that lie `step` apart.
template <class In, class Out>
void scalar_pass(const In* in, Out* out, int step, int shift) {
  const auto fix = [](double x) { return static_cast<int64_t>(std::lround(x * 8192)); };
  const auto at = [&](int i) { return static_cast<int64_t>(in[i * step]); };
  const int64_t e = (at(2) + at(6)) * fix(0.541196100), e2 = e - at(6) * fix(1.847759065),
                e3 = e + at(2) * fix(0.765366865);
  const int64_t a = (at(0) + at(4)) * 8192, b = (at(0) - at(4)) * 8192;
  const int64_t even[4] = {a + e3, b + e2, b - e2, a - e3};
  const int64_t z5 = (at(7) + at(3) + at(5) + at(1)) * fix(1.175875602);
  const int64_t z1 = -(at(7) + at(1)) * fix(0.899976223), z2 = -(at(5) + at(3)) * fix(2.562915447);
  const int64_t z3 = z5 - (at(7) + at(3)) * fix(1.961570560), z4 = z5 - (at(5) + at(1)) * fix(0.390180644);
  const int64_t odd[4] = {at(1) * fix(1.501321110) + z1 + z4, at(3) * fix(3.072711026) + z2 + z3,
                          at(5) * fix(2.053119869) + z2 + z4, at(7) * fix(0.298631336) + z1 + z3};
  const int64_t half = int64_t{1} << (shift - 1);
  for (int i = 0; i < 4; ++i) {
    out[i * step] = static_cast<Out>((even[i] + odd[i] + half) >> shift);
    out[(7 - i) * step] = static_cast<Out>((even[i] - odd[i] + half) >> shift);
  }
}

void scalar_idct(const int32_t (&coefficients)[64], uint8_t (&samples)[64]) {
  int32_t columns[64], rows[64];
  for (int c = 0; c < 8; ++c) scalar_pass(coefficients + c, columns + c, 8, 11);
  for (int r = 0; r < 8; ++r) scalar_pass(columns + 8 * r, rows + 8 * r, 1, 18);
  for (int i = 0; i < 64; ++i) samples[i] = static_cast<uint8_t>(std::clamp(rows[i] + 128, 0, 255));
}

double forward_dct(const double (&samples)[64], size_t v, size_t u) {
  constexpr double kPi = 3.14159265358979323846;
  double sum = 0;
  for (size_t y = 0; y < 8; ++y)
    for (size_t x = 0; x < 8; ++x)
      sum += (samples[8 * y + x] - 128) * std::cos(static_cast<double>((2 * x + 1) * u) * kPi / 16) *
             std::cos(static_cast<double>((2 * y + 1) * v) * kPi / 16);
  return sum / 4 * (u == 0 ? std::sqrt(0.5) : 1) * (v == 0 ? std::sqrt(0.5) : 1);
}

TEST(IdctGroup, EqualsTheScalarVersion) {
  test::for_each_target([] {
    const IdctGroup idct = idct_group();
    std::mt19937 random(6);
    alignas(64) int16_t group[kGroupStride];
    alignas(64) int16_t quant[64];
    for (int round = 0; round < 50; ++round) {
      for (int16_t& q : quant) q = static_cast<int16_t>(1 + random() % (round % 2 ? 255 : 8));
      // What an encoder makes of samples: smooth, noisy, and as extreme as can be.
      for (size_t block = 0; block < kGroupBlocks; ++block) {
        double samples[64];
        const int kind = static_cast<int>(random() % 4);
        for (double& sample : samples)
          sample = kind == 0   ? 100
                   : kind == 1 ? 120 + random() % 16
                   : kind == 2 ? random() % 256
                               : random() % 2 * 255;
        for (size_t i = 0; i < 64; ++i)
          group[i / 8 * kGroupRow + block * 8 + i % 8] =
              static_cast<int16_t>(std::lround(forward_dct(samples, i / 8, i % 8) / quant[i]));
      }
      uint8_t out[8][48];
      ASSERT_TRUE(idct(group, quant, out[0], 48));
      for (size_t block = 0; block < kGroupBlocks; ++block) {
        int32_t coefficients[64];
        for (size_t i = 0; i < 64; ++i)
          coefficients[i] = group[i / 8 * kGroupRow + block * 8 + i % 8] * quant[i];
        uint8_t expected[64];
        scalar_idct(coefficients, expected);
        for (size_t i = 0; i < 64; ++i)
          ASSERT_EQ(int{out[i / 8][block * 8 + i % 8]}, int{expected[i]})
              << round << " " << block << " " << i;
      }
    }
  });
}

TEST(IdctGroup, ReportsValuesOutOfRange) {
  test::for_each_target([] {
    const IdctGroup idct = idct_group();
    alignas(64) int16_t group[kGroupStride] = {};
    alignas(64) int16_t quant[64];
    std::fill(std::begin(quant), std::end(quant), int16_t{2});
    uint8_t out[8 * kGroupRow];
    for (size_t i = 0; i < kGroupRow; ++i) {
      for (const int16_t value : {4095, -4096, 4096, -4097, 16384, -16384}) {
        group[i] = value;
        EXPECT_EQ(idct(group, quant, out, kGroupRow), value == 4095 || value == -4096) << i << " " << value;
      }
      group[i] = 0;
    }
  });
}

struct Rgb {
  int r, g, b;
};

Rgb scalar_colour(int y, int cb, int cr) {
  const auto fix = [](double x) { return static_cast<int>(std::lround(x * 65536)); };
  const int u = cb - 128, v = cr - 128, half = 1 << 15;
  return {std::clamp(y + ((fix(1.402) * v + half) >> 16), 0, 255),
          std::clamp(y + ((-fix(0.34414) * u - fix(0.71414) * v + half) >> 16), 0, 255),
          std::clamp(y + ((fix(1.772) * u + half) >> 16), 0, 255)};
}

TEST(UpsampleColor, EveryColourIsRight) {
  test::for_each_target([] {
    const UpsampleColor kernels = upsample_color();
    std::vector<uint8_t> luma(256 + kSlack), cb(256 + kSlack), cr(256 + kSlack), out(256 * 4);
    for (int v = 0; v < 256; ++v) {
      for (int y = 0; y < 256; y += 5) {
        for (size_t u = 0; u < 256; ++u)
          luma[u] = static_cast<uint8_t>(y), cb[u] = static_cast<uint8_t>(u), cr[u] = static_cast<uint8_t>(v);
        kernels.full(luma.data(), cb.data(), cr.data(), 256, out.data());
        for (int u = 0; u < 256; ++u) {
          const Rgb expected = scalar_colour(y, u, v);
          const uint8_t* pixel = &out[static_cast<size_t>(4 * u)];
          ASSERT_TRUE(pixel[0] == expected.r && pixel[1] == expected.g && pixel[2] == expected.b)
              << y << " " << u << " " << v;
        }
      }
    }
  });
}

TEST(UpsampleColor, TriangleFilterOfAnyLengthAndParity) {
  test::for_each_target([] {
    const UpsampleColor kernels = upsample_color();
    std::mt19937 random(7);
    for (int round = 0; round < 400; ++round) {
      const size_t first = random() % 2, count = 1 + random() % 200, chroma = (first + count + 1) / 2;
      const bool both = random() % 2 == 0;  // halved rows as well as columns
      std::vector<uint8_t> luma(first + count + kSlack), near[2], far[2], out(count * 4 + 16, 0xAB);
      std::vector<uint16_t> buffer[2];
      std::generate(luma.begin(), luma.end(), [&] { return static_cast<uint8_t>(random()); });
      uint16_t* sums[2];
      for (int c = 0; c < 2; ++c) {
        near[c].resize(chroma + kSlack);
        std::generate(near[c].begin(), near[c].end(), [&] { return static_cast<uint8_t>(random()); });
        far[c] = near[c];
        if (both) std::generate(far[c].begin(), far[c].end(), [&] { return static_cast<uint8_t>(random()); });
        buffer[c].resize(chroma + 2 * kSlack);
        sums[c] = buffer[c].data() + kSlack;
        kernels.blend(near[c].data(), far[c].data(), chroma, sums[c]);
        for (size_t i = 0; i < chroma; ++i) ASSERT_EQ(int{sums[c][i]}, 3 * near[c][i] + far[c][i]);
        sums[c][-1] = sums[c][0];
        sums[c][chroma] = sums[c][chroma - 1];
      }
      kernels.halved(luma.data(), sums[0], sums[1], both ? 8 : 4, both ? 7 : 8, first, count, out.data());
      for (size_t i = 0; i < count; ++i) {
        const size_t p = first + i, c = p / 2,
                     beside = p % 2 ? std::min(c + 1, chroma - 1) : (c == 0 ? 0 : c - 1);
        const auto sample = [&](int k) {
          const auto down = [&](size_t x) { return both ? 3 * near[k][x] + far[k][x] : int{near[k][x]}; };
          return both ? (3 * down(c) + down(beside) + (p % 2 ? 7 : 8)) >> 4
                      : (3 * down(c) + down(beside) + (p % 2 ? 2 : 1)) >> 2;
        };
        const Rgb expected = scalar_colour(luma[p], sample(0), sample(1));
        ASSERT_TRUE(out[4 * i] == expected.r && out[4 * i + 1] == expected.g && out[4 * i + 2] == expected.b)
            << round << " " << i;
      }
      for (size_t i = 4 * count; i < out.size(); ++i) ASSERT_EQ(out[i], 0xAB);
    }
  });
}

TEST(UpsampleColor, GreyIsGrey) {
  test::for_each_target([] {
    const UpsampleColor kernels = upsample_color();
    for (size_t count = 1; count < 150; ++count) {
      std::vector<uint8_t> luma(count + kSlack), out(count * 4 + 8, 0xAB);
      for (size_t i = 0; i < luma.size(); ++i) luma[i] = static_cast<uint8_t>(i * 7);
      kernels.grey(luma.data(), count, out.data());
      for (size_t i = 0; i < count; ++i)
        ASSERT_TRUE(out[4 * i] == luma[i] && out[4 * i + 1] == luma[i] && out[4 * i + 2] == luma[i]);
      for (size_t i = 4 * count; i < out.size(); ++i) ASSERT_EQ(out[i], 0xAB);
    }
  });
}

}  // namespace
}  // namespace millrace::codecs
