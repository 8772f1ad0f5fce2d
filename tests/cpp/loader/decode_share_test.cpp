// DecodeShare: the share that keeps both sides busy, from measured times.
#include "loader/decode_share.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

int left_of(DecodeShare& share, int pictures) {
  int left = 0;
  for (int i = 0; i < pictures; ++i) {
    if (!share.take(10)) continue;
    ++left;
    share.give_back(10, {});
  }
  return left;
}

TEST(DecodeShare, WithoutBalanceEverythingThatFitsIsLeft) {
  DecodeShare share(false, 4, 100);
  EXPECT_EQ(left_of(share, 50), 50);
  EXPECT_TRUE(share.take(60));
  EXPECT_FALSE(share.take(41));
  EXPECT_TRUE(share.take(40));
  EXPECT_EQ(share.waiting(), 2);
  share.give_back(60, {});
  EXPECT_TRUE(share.take(41));
  EXPECT_EQ(share.left(), 53);
}

TEST(DecodeShare, AFewPicturesTryADeviceOfUnknownSpeed) {
  DecodeShare share(true, 4, 1000);
  int left = 0;
  for (int i = 0; i < 20; ++i) left += share.take(10);
  EXPECT_EQ(left, 4);
  for (int i = 0; i < 4; ++i) share.give_back(10, {});
  EXPECT_TRUE(share.take(10));  // they may have been damaged, all of them
}

TEST(DecodeShare, BothSidesAreBusyForAsLong) {
  for (const double device_us : {10.0, 100.0, 1000.0, 20000.0}) {
    DecodeShare share(true, 4, 1000);
    share.worker_took(1'000'000, false);
    share.worker_took(100'000, true);
    share.device_took(static_cast<int64_t>(device_us * 1000 * 16), 16, 20 * 25'000, 20);
    const int left = left_of(share, 10'000);
    const double threads = ((10'000 - left) * 1000.0 + left * 100.0) / 4, device = left * device_us + 10'000 * 25.0;
    EXPECT_NEAR(threads / device, 1.1, 0.02) << device_us;
  }
}

TEST(DecodeShare, ADeviceThatHasEnoughToDoWithCopiesGetsNone) {
  DecodeShare share(true, 4, 1000);
  share.worker_took(1000, false);
  share.device_took(1000, 1, 4000, 10);
  EXPECT_EQ(share.share(), 0);
}

TEST(DecodeShare, SpeedsThatChangeAreFollowed) {
  DecodeShare share(true, 1, 1000);
  share.worker_took(1000, false);
  share.device_took(1000, 1, 0, 1);
  EXPECT_NEAR(share.share(), 0.48, 1e-2);
  for (int i = 0; i < 40; ++i) share.device_took(9000, 1, 0, 1);
  EXPECT_NEAR(share.share(), 0.092, 0.01);
}

}  // namespace
}  // namespace millrace
