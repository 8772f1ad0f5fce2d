// Drift: clean feeds of any distribution raise nothing, each kind of change is found and named, once.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tuning/drift_detector.h"
#include "tuning/drift_tracker.h"
#include "tuning/field_stats.h"

namespace millrace::tuning {
namespace {

using Draw = std::function<double(std::mt19937_64&, int64_t series)>;

struct Feed {
  BatchView view;
  Draw draw;
  std::vector<float> floats;
  std::vector<int64_t> wholes;

  Feed(base::DType type, std::vector<int64_t> sizes, Draw drawn) : draw(std::move(drawn)) {
    view.type = type;
    view.sizes = std::move(sizes);
    view.strides.resize(view.sizes.size());
    int64_t stride = 1;
    for (size_t d = view.sizes.size(); d-- > 0; stride *= view.sizes[d]) view.strides[d] = stride;
    (type == base::DType::f32 ? floats.resize(static_cast<size_t>(stride))
                              : wholes.resize(static_cast<size_t>(stride)));
  }
  SampledBatch next(std::mt19937_64& random, uint64_t turn) {
    const int64_t inner = view.sizes.size() == 4 ? view.sizes[2] * view.sizes[3] : 1,
                  series = view.sizes.size() > 1 ? view.sizes[1] : 1;
    for (size_t i = 0; i < floats.size(); ++i)
      floats[i] = static_cast<float>(draw(random, static_cast<int64_t>(i) / inner % series));
    for (size_t i = 0; i < wholes.size(); ++i)
      wholes[i] = static_cast<int64_t>(draw(random, static_cast<int64_t>(i) % series));
    view.data = floats.empty() ? reinterpret_cast<const uint8_t*>(wholes.data())
                               : reinterpret_cast<const uint8_t*>(floats.data());
    SampledBatch sampled;
    sample_rows(view, layout_of(view), {}, turn, sampled);
    return sampled;
  }
};

DriftStats profile(Feed feed, int batches, uint64_t seed) {
  std::mt19937_64 random(seed);
  DriftStats stats;
  FieldStats& field = stats.fields["x"];
  for (int b = 0; b < batches; ++b) {
    SampledBatch batch = feed.next(random, static_cast<uint64_t>(b));
    if (!field.begun()) field.begin(feed.view, false, nullptr);
    field.add(std::move(batch), feed.view.rows(), nullptr);
  }
  stats.settle();
  return stats;
}

std::vector<DriftAlarm> watched(const DriftStats& reference, Feed feed, int batches, uint64_t seed) {
  std::mt19937_64 random(seed);
  DriftDetector detector(reference, {});
  FieldStats field;
  std::vector<DriftAlarm> alarms;
  for (int b = 0; b < batches; ++b) {
    SampledBatch batch = feed.next(random, static_cast<uint64_t>(b));
    if (!field.begun()) field.begin(feed.view, false, detector.reference("x"));
    detector.begin_batch(b * 4);
    detector.add("x", field.add(std::move(batch), feed.view.rows(), detector.reference("x")));
    for (DriftAlarm& alarm : detector.end_batch()) alarms.push_back(std::move(alarm));
  }
  return alarms;
}

std::set<std::string> kinds(const std::vector<DriftAlarm>& alarms) {
  std::set<std::string> result;
  for (const DriftAlarm& alarm : alarms) result.insert(alarm.kind);
  return result;
}

double normal(std::mt19937_64& random, int64_t) { return std::normal_distribution<double>()(random); }
double cauchy(std::mt19937_64& random, int64_t) { return std::cauchy_distribution<double>()(random); }
double lognormal(std::mt19937_64& random, int64_t) {
  return std::lognormal_distribution<double>(0, 3)(random);
}
double rare(std::mt19937_64& random, int64_t) { return std::bernoulli_distribution(0.002)(random); }
double constant(std::mt19937_64&, int64_t) { return 7; }
double far(std::mt19937_64& random, int64_t) { return 1e6 + std::normal_distribution<double>()(random); }
double geometric(std::mt19937_64& random, int64_t) {
  return static_cast<double>(std::geometric_distribution<int>(0.3)(random));
}

TEST(Drift, CleanFeedsRaiseNothing) {
  for (const auto& [draw, type] : std::vector<std::pair<Draw, base::DType>>{{normal, base::DType::f32},
                                                                            {cauchy, base::DType::f32},
                                                                            {lognormal, base::DType::f32},
                                                                            {rare, base::DType::f32},
                                                                            {constant, base::DType::f32},
                                                                            {far, base::DType::f32},
                                                                            {geometric, base::DType::i64},
                                                                            {rare, base::DType::i64}})
    for (const int64_t rows : {1, 3, 32})
      for (uint64_t seed = 0; seed < 3; ++seed) {
        const Feed feed(type, {rows, 4}, draw);
        const auto alarms =
            watched(profile(feed, static_cast<int>(1024 / rows), 100 + seed), feed, 300, seed);
        EXPECT_TRUE(alarms.empty()) << alarms[0].kind << " rows " << rows << " log p " << alarms[0].log_p
                                    << " seen " << alarms[0].seen;
      }
}

TEST(Drift, EachChangeIsFoundOnce) {
  const DriftStats reference = profile(Feed(base::DType::f32, {32, 4}, normal), 64, 1);
  const std::vector<std::pair<std::string, Draw>> changes{
      {"mean", [](std::mt19937_64& r, int64_t s) { return normal(r, s) + (s == 2) * 0.5; }},
      {"spread", [](std::mt19937_64& r, int64_t s) { return normal(r, s) * (s == 2 ? 1.6 : 1); }},
      {"nan", [](std::mt19937_64& r,
                 int64_t s) { return s == 2 && std::bernoulli_distribution(0.1)(r) ? NAN : normal(r, s); }},
      {"zeros", [](std::mt19937_64& r,
                   int64_t s) { return s == 2 && std::bernoulli_distribution(0.5)(r) ? 0.0 : normal(r, s); }},
      {"range",
       [](std::mt19937_64& r, int64_t s) {
         return s == 2 && std::bernoulli_distribution(0.1)(r) ? 50.0 : normal(r, s);
       }},
      {"histogram", [](std::mt19937_64& r, int64_t s) {
         return s == 2 ? (normal(r, s) > 0 ? 0.8 : -0.8) : normal(r, s);
       }}};
  for (const auto& [kind, draw] : changes) {
    const auto alarms = watched(reference, Feed(base::DType::f32, {32, 4}, draw), 100, 5);
    EXPECT_TRUE(kinds(alarms).contains(kind)) << kind;
    EXPECT_EQ(alarms.size(), kinds(alarms).size()) << kind;
    for (const DriftAlarm& alarm : alarms) {
      EXPECT_EQ(alarm.series, 2) << kind << ' ' << alarm.kind;
      EXPECT_FALSE(alarm.ended);
      if (alarm.kind == kind) {
        EXPECT_LE(alarm.step, 4 * 50) << kind;
      }
    }
  }
}

TEST(Drift, ClassesThatComeGoAndAppear) {
  const Feed clean(base::DType::i64, {32}, [](std::mt19937_64& r, int64_t) {
    return std::discrete_distribution<int>({80, 15, 4, 1})(r);
  });
  const DriftStats reference = profile(clean, 64, 1);
  const auto balance = [](std::initializer_list<double> weights) {
    return Feed(base::DType::i64, {32}, [shares = std::vector<double>(weights)](auto& r, int64_t) {
      return std::discrete_distribution<int>(shares.begin(), shares.end())(r);
    });
  };
  const auto more = watched(reference, balance({60, 15, 24, 1}), 100, 2);
  ASSERT_EQ(more.size(), 1u);
  EXPECT_EQ(more[0].kind, "classes");
  EXPECT_TRUE(more[0].label == 2 || more[0].label == 0 || more[0].what == "all");
  const auto fresh = watched(reference, balance({75, 14, 4, 1, 6}), 100, 2);
  ASSERT_FALSE(fresh.empty());
  EXPECT_EQ(fresh[0].what, "new");
}

TEST(Drift, SwappedChannels) {
  const auto picture = [](std::array<double, 3> means) {
    return Feed(base::DType::f32, {16, 3, 6, 6}, [means](std::mt19937_64& r, int64_t c) {
      return means[static_cast<size_t>(c)] + 0.25 * normal(r, c);
    });
  };
  const DriftStats reference = profile(picture({0.485, 0.456, 0.406}), 64, 1);
  EXPECT_TRUE(watched(reference, picture({0.485, 0.456, 0.406}), 300, 2).empty());
  const auto swapped = watched(reference, picture({0.406, 0.456, 0.485}), 200, 3);
  ASSERT_FALSE(swapped.empty());
  EXPECT_EQ(swapped[0].kind, "channels");
  EXPECT_EQ(swapped[0].order, (std::vector<int>{2, 1, 0}));
  EXPECT_FALSE(kinds(swapped).contains("mean"));
  const auto brighter = watched(reference, picture({0.685, 0.656, 0.606}), 100, 3);
  EXPECT_TRUE(kinds(brighter).contains("mean"));
  EXPECT_FALSE(kinds(brighter).contains("channels"));
}

TEST(Drift, AnEndedOneMayComeAgain) {
  const DriftStats reference = profile(Feed(base::DType::f32, {32, 1}, normal), 64, 1);
  auto count = std::make_shared<int>(0);
  const Feed feed(base::DType::f32, {32, 1}, [count](std::mt19937_64& r, int64_t s) {
    const int batch = (*count)++ / 32;
    return normal(r, s) + 2 * (batch / 100 % 2);  // every second hundred batches
  });
  std::vector<std::pair<int64_t, bool>> means;
  for (const DriftAlarm& alarm : watched(reference, feed, 400, 7))
    if (alarm.kind == "mean") means.emplace_back(alarm.since, alarm.ended);
  ASSERT_EQ(means.size(), 3u);
  EXPECT_NEAR(static_cast<double>(means[0].first), 400, 8);  // windows double, so a batch more may lie in it
  EXPECT_TRUE(means[1].second);
  EXPECT_NEAR(static_cast<double>(means[2].first), 1200, 8);
}

TEST(FeatureTracker, BatchesThatHangTogetherNeedMore) {
  std::mt19937_64 random(4);
  FeatureTracker loose({0.5, 0.25, 1, 1, 10'000, 1, 0.01}), tight({0.5, 0.25, 1, 1, 10'000, 30, 0.01});
  for (int i = 0; i < 64; ++i) {
    const double share = std::bernoulli_distribution(0.6)(random);  // a batch is of one kind
    loose.add(32, 32 * share);
    tight.add(32, 32 * share);
  }
  EXPECT_GT(tight.strongest().log_p, -12);
  EXPECT_NEAR(loose.window(64).design, 32, 10);
  FeatureTracker even({0.5, 0.25, 1, 1, 10'000, 1, 0.01});
  for (int i = 0; i < 64; ++i) even.add(32, 19 + i % 2);
  EXPECT_LT(even.strongest().log_p, -30);
  EXPECT_NEAR(even.window(64).design, 1, 0.01);
}

}  // namespace
}  // namespace millrace::tuning
