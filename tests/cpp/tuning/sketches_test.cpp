// The sketches keep their stated errors, and merging two is as good as one that saw all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "tuning/repeats.h"
#include "tuning/value_counts.h"
#include "tuning/value_histogram.h"

namespace millrace::tuning {
namespace {

TEST(ValueHistogram, BucketsAreInOrderAndHoldTheirMiddles) {
  double last = -std::numeric_limits<double>::infinity();
  for (int bucket = 0; bucket < ValueHistogram::kBuckets; ++bucket) {
    const double middle = ValueHistogram::middle_of(bucket);
    EXPECT_EQ(ValueHistogram::bucket_of(middle), bucket);
    EXPECT_GT(middle, last);
    last = middle;
  }
  for (const double x : {1e300, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(ValueHistogram::bucket_of(x), ValueHistogram::kBuckets - 1);
    EXPECT_EQ(ValueHistogram::bucket_of(-x), 0);
  }
  for (const double x : {0.0, -0.0, 1e-300, std::numeric_limits<double>::denorm_min()})
    EXPECT_EQ(ValueHistogram::bucket_of(x), ValueHistogram::kZero);
}

TEST(ValueHistogram, QuantilesAreWithinHalfABucket) {
  std::mt19937_64 random(2);
  std::lognormal_distribution<double> heavy(0, 3);
  std::vector<double> values(20'000);
  ValueHistogram even, odd;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = (i % 5 ? 1 : -1) * heavy(random);
    (i % 2 ? odd : even).add(ValueHistogram::bucket_of(values[i]));
  }
  even.merge(odd);
  EXPECT_EQ(even.total(), values.size());
  std::sort(values.begin(), values.end());
  for (const double q : {0.0, 0.01, 0.2, 0.5, 0.9, 0.999, 1.0}) {
    const double exact = values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
    EXPECT_NEAR(even.quantile(q), exact, 0.032 * std::fabs(exact)) << q;
  }
  EXPECT_EQ(ValueHistogram().quantile(0.5), 0);
}

TEST(ValueCounts, ExactWhileThereAreFew) {
  ValueCounts counts(4);
  for (int i = 0; i < 100; ++i) counts.add(i % 8 - 4);
  EXPECT_TRUE(counts.exact());
  EXPECT_EQ(counts.most_frequent(1)[0], (std::pair<int64_t, uint64_t>(-4, 13)));
  EXPECT_EQ(counts.most_frequent(99).size(), 8u);
}

TEST(ValueCounts, FrequentOnesWithinTheError) {
  std::mt19937_64 random(3);
  std::geometric_distribution<int64_t> skewed(0.002);
  std::map<int64_t, uint64_t> exact;
  ValueCounts a(64), b(64);
  for (int i = 0; i < 200'000; ++i) {
    const int64_t value = i % 4 ? skewed(random) * 7919 : -1;
    ++exact[value];
    (i % 3 ? a : b).add(value);
  }
  a.merge(b);
  EXPECT_EQ(a.total(), 200'000u);
  EXPECT_FALSE(a.exact());
  EXPECT_LE(a.error(), 2 * 200'000u / 64);
  EXPECT_EQ(a.most_frequent(1)[0].first, -1);
  for (const auto& [value, count] : a.most_frequent(1000)) {
    EXPECT_LE(count, exact[value]);
    EXPECT_GE(count + a.error(), exact[value]);
  }
}

TEST(Repeats, DistinctOnesWithinFivePercent) {
  for (const int different : {0, 1, 100, 3'000, 200'000}) {
    Repeats even, odd;
    for (int i = 0; i < 2 * different; ++i)
      (i % 3 ? odd : even).add(mix_hash(7, static_cast<uint64_t>(i % different)));
    even.merge(odd);
    EXPECT_EQ(even.samples, 2 * different);
    EXPECT_NEAR(even.distinct(), different, 0.05 * different + 0.6);
  }
}

TEST(Repeats, OfAnEpochAndAmongTheLatest) {
  Repeats repeats;
  for (uint64_t i = 0; i < 600; ++i) EXPECT_FALSE(repeats.add(mix_hash(1, i)));
  EXPECT_TRUE(repeats.add(mix_hash(1, 599)));
  EXPECT_FALSE(repeats.add(mix_hash(1, 3)));  // too long ago for the latest, but of this epoch
  EXPECT_EQ(repeats.repeated, 2);
  EXPECT_EQ(repeats.recent, 1);
  repeats.start_epoch();
  EXPECT_FALSE(repeats.add(mix_hash(1, 599)));
  EXPECT_EQ(repeats.repeated, 2);
}

}  // namespace
}  // namespace millrace::tuning
