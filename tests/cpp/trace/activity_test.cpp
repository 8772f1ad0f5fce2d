// Activity: a reader sees what belongs together, whatever the writer does meanwhile.
#include "trace/activity.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace millrace::trace {
namespace {

TEST(Activity, TellsSampleStepAndSince) {
  Activity activity;
  EXPECT_EQ(activity.now().doing, Doing::nothing);
  {
    ActiveSample sample(activity, 7);
    const auto reading = activity.now();
    EXPECT_EQ(reading.doing, Doing::reading);
    EXPECT_EQ(reading.index, 7);
    EXPECT_EQ(reading.since_ns, reading.sample_ns);
    sample.makes();
    const auto making = activity.now();
    EXPECT_EQ(making.doing, Doing::making);
    EXPECT_EQ(making.index, 7);
    EXPECT_EQ(making.sample_ns, reading.sample_ns);
    EXPECT_GE(making.since_ns, reading.since_ns);
  }
  EXPECT_EQ(activity.now().doing, Doing::nothing);
  EXPECT_EQ(activity.now().index, -1);
}

TEST(Activity, MomentsAreWhole) {
  Activity activity;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int64_t i = 0; !stop.load(); ++i) {
      ActiveSample sample(activity, i);
      sample.makes();
    }
  });
  int64_t last = -1;
  for (int i = 0; i < 20'000; ++i) {
    const auto moment = activity.now();
    if (moment.doing == Doing::nothing) {
      EXPECT_EQ(moment.index, -1);
      continue;
    }
    EXPECT_GE(moment.index, last);
    EXPECT_GE(moment.since_ns, moment.sample_ns);
    if (moment.doing == Doing::reading) {
      EXPECT_EQ(moment.since_ns, moment.sample_ns);
    }
    last = moment.index;
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace millrace::trace
