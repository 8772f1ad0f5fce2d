// Moments: as exact as a sum in long double, in any order of merging.
#include "tuning/moments.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace millrace::tuning {
namespace {

void expect_exact(const std::vector<double>& values, const Moments& found) {
  long double sum = 0, squares = 0;
  for (const double x : values) sum += x;
  const long double mean = sum / static_cast<long double>(values.size());
  for (const double x : values) squares += (x - mean) * (x - mean);
  const double variance = static_cast<double>(squares / static_cast<long double>(values.size()));
  EXPECT_EQ(found.count, static_cast<int64_t>(values.size()));
  EXPECT_NEAR(found.mean, static_cast<double>(mean), 1e-12 * std::fabs(static_cast<double>(mean)) + 1e-300);
  EXPECT_NEAR(found.variance(), variance, 1e-9 * variance);
}

TEST(Moments, FarFromZeroAndHeavyTailed) {
  std::mt19937_64 random(1);
  std::cauchy_distribution<double> heavy(0, 1);
  std::normal_distribution<double> narrow(1e9, 1);
  for (const bool far : {false, true}) {
    std::vector<double> values(50'001);
    for (double& x : values) x = far ? narrow(random) : heavy(random);
    Moments whole, left, right;
    whole.add(values.data(), values.size());
    expect_exact(values, whole);
    for (size_t at = 0; at < values.size(); at += 7)
      (at % 3 ? left : right).add(values.data() + at, std::min<size_t>(7, values.size() - at));
    left.merge(right);
    expect_exact(values, left);
  }
}

TEST(Moments, NothingAndOne) {
  Moments none, one;
  none.merge(none);
  none.add(nullptr, 0);
  EXPECT_EQ(none.count, 0);
  EXPECT_EQ(none.variance(), 0);
  const double x = 3;
  one.add(&x, 1);
  none.merge(one);
  EXPECT_EQ(none.mean, 3);
  EXPECT_EQ(none.variance(), 0);
}

}  // namespace
}  // namespace millrace::tuning
