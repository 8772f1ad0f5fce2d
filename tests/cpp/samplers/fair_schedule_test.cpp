// FairSchedule: every prefix is fair, for simple weights and wild ones, and any turn can be gone to.
#include "samplers/fair_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "millrace/error.h"

namespace millrace::samplers {
namespace {

using Shares = std::vector<uint64_t>;

// How far any source ever is from its share.
double worst_error(const Shares& weights, int64_t turns) {
  FairSchedule schedule(weights, 1, 2);
  const double sum = static_cast<double>(std::accumulate(weights.begin(), weights.end(), uint64_t{0}));
  double worst = 0;
  for (int64_t turn = 1; turn <= turns; ++turn) {
    schedule.next();
    for (size_t i = 0; i < weights.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(schedule.counts()[i]) -
                                       static_cast<double>(weights[i]) / sum * static_cast<double>(turn)));
  }
  return worst;
}

TEST(FairSchedule, EveryPrefixIsFairToWithinOne) {
  std::mt19937_64 random(1);
  EXPECT_LT(worst_error({1}, 10), 1);
  EXPECT_LT(worst_error({1, 1}, 1000), 1);
  EXPECT_LT(worst_error({7, 2, 1}, 1000), 1);
  EXPECT_LT(worst_error({1, 0, 1'000'000}, 5000), 1);
  for (int i = 0; i < 300; ++i) {
    Shares weights(1 + random() % 70);
    // Of very different sizes: that is where greedy rules fail.
    for (uint64_t& weight : weights) weight = 1 + (random() >> (14 + random() % 50));
    EXPECT_LT(worst_error(weights, 3000), 1.0 + 1e-9);
  }
}

TEST(FairSchedule, APeriodGivesExactlyTheWeights) {
  const Shares weights{30, 9, 0, 21};
  FairSchedule schedule(weights, 5, 5);
  for (int period = 1; period <= 3; ++period) {
    for (int turn = 0; turn < 20; ++turn) schedule.next();
    EXPECT_EQ(schedule.counts(), (std::vector<int64_t>{10 * period, 3 * period, 0, 7 * period}));
  }
}

TEST(FairSchedule, EqualSourcesComeInAnotherOrderEachRound) {
  FairSchedule schedule(Shares(5, 3), 1, 1);
  std::set<std::vector<size_t>> rounds;
  for (int round = 0; round < 600; ++round) {
    std::vector<size_t> order;
    for (int i = 0; i < 5; ++i) order.push_back(schedule.next());
    EXPECT_EQ(std::set<size_t>(order.begin(), order.end()).size(), 5u);
    rounds.insert(order);
  }
  EXPECT_GT(rounds.size(), 110u) << "of 120";
}

TEST(FairSchedule, SeeksAnywhere) {
  std::mt19937_64 random(3);
  for (const Shares& weights : {Shares{1, 1, 1}, Shares{7, 2, 1}, Shares{1'000'003, 999, 31'337}}) {
    FairSchedule whole(weights, 4, 4), schedule(weights, 4, 4);
    std::vector<size_t> turns;
    for (int i = 0; i < 2000; ++i) turns.push_back(whole.next());
    for (int i = 0; i < 300; ++i) {
      const auto turn = static_cast<int64_t>(random() % 2000);
      schedule.seek(turn);
      EXPECT_EQ(schedule.turn(), turn);
      ASSERT_EQ(schedule.next(), turns[static_cast<size_t>(turn)]);
    }
  }
}

TEST(FairSchedule, FewAndManySourcesAreOneRule) {
  std::mt19937_64 random(9);
  for (int i = 0; i < 50; ++i) {
    Shares weights(1 + random() % 48);
    for (uint64_t& weight : weights) weight = 1 + random() % (uint64_t{1} << (random() % 20));
    Shares padded = weights;
    padded.resize(100);  // sources without weight change nothing
    FairSchedule few(weights, 3, 1), many(padded, 3, 1);
    for (int turn = 0; turn < 2000; ++turn) ASSERT_EQ(few.next(), many.next());
  }
}

TEST(FairSchedule, BadWeights) {
  EXPECT_THROW(FairSchedule({}, 0, 0), Error);
  EXPECT_THROW(FairSchedule({0, 0}, 0, 0), Error);
  EXPECT_THROW(FairSchedule({uint64_t{1} << 62, 1}, 0, 0), Error);
}

}  // namespace
}  // namespace millrace::samplers
