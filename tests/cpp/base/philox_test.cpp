// Philox: the published vectors, the key's parts, and the ranges of its numbers.
#include "base/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

namespace millrace::base {
namespace {

using Block = std::array<uint32_t, 4>;

// kat_vectors of Random123, the generator's reference distribution.
TEST(Philox, PublishedVectors) {
  EXPECT_EQ(Philox::block({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t ones = 0xffffffff;
  EXPECT_EQ(Philox::block({ones, ones, ones, ones}, {ones, ones}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox::block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, SameKeySameNumbers) {
  const SampleKey key{7, 3, 41, 1};
  Philox a(key, 2), b(key, 2);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.next_u32(), b.next_u32());
}

TEST(Philox, EveryPartOfTheKeyMatters) {
  const SampleKey key{7, 3, 41, 1};
  std::set<uint64_t> seen;
  const auto first = [](SampleKey k, uint32_t op) {
    Philox p(k, op);
    const uint64_t high = p.next_u32();
    return high << 32 | p.next_u32();
  };
  seen.insert(first(key, 0));
  seen.insert(first({8, 3, 41, 1}, 0));
  seen.insert(first({7 + (uint64_t{1} << 40), 3, 41, 1}, 0));
  seen.insert(first({7, 4, 41, 1}, 0));
  seen.insert(first({7, 3, 42, 1}, 0));
  seen.insert(first({7, 3, 41 + (int64_t{1} << 33), 1}, 0));
  seen.insert(first({7, 3, 41, 2}, 0));
  seen.insert(first({3, 7, 41, 1}, 0));
  seen.insert(first(key, 1));
  EXPECT_EQ(seen.size(), 9u);
}

TEST(Philox, UniformStaysInRangeAndSpreads) {
  Philox p({1, 0, 0, 0}, 0);
  double sum = 0, squares = 0;
  constexpr int n = 100'000;
  for (int i = 0; i < n; ++i) {
    const double u = p.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / n, 0.5, 5 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(squares / n, 1.0 / 3, 0.005);
  const double v = p.uniform(-2.0, -1.0);
  EXPECT_GE(v, -2.0);
  EXPECT_LT(v, -1.0);
}

TEST(Philox, IntegersCoverTheirRangeEvenly) {
  Philox p({5, 0, 0, 0}, 0);
  std::array<int, 7> count{};
  constexpr int n = 70'000;
  for (int i = 0; i < n; ++i) {
    const int64_t x = p.integer(-3, 4);
    ASSERT_GE(x, -3);
    ASSERT_LT(x, 4);
    ++count[static_cast<size_t>(x + 3)];
  }
  for (const int c : count) EXPECT_NEAR(c, n / 7, 500);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(p.integer(9, 10), 9);
}

TEST(Philox, IntegersOfTheWidestRange) {
  Philox p({5, 0, 0, 0}, 0);
  bool negative = false, positive = false;
  for (int i = 0; i < 64; ++i) {
    const int64_t x = p.integer(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
    negative |= x < 0;
    positive |= x > 0;
  }
  EXPECT_TRUE(negative && positive);
}

}  // namespace
}  // namespace millrace::base
