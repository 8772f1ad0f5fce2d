// DecodeShare: the share that keeps both sides busy, from measured times.
#include "loader/decode_share.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace millrace::loader {
namespace {

int left_of(DecodeShare& share, int pictures) {
  int left = 0;
  for (int i = 0; i < pictures; ++i) {
    if (!share.take({10, 0})) continue;
    ++left;
    share.give_back({10, 0}, {});
  }
  return left;
}

TEST(DecodeShare, WithoutBalanceEverythingThatFitsIsLeft) {
  DecodeShare share(false, 4, 100);
  EXPECT_EQ(left_of(share, 50), 50);
  EXPECT_TRUE(share.take({60, 0}));
  EXPECT_FALSE(share.take({41, 0}));
  EXPECT_TRUE(share.take({40, 0}));
  EXPECT_EQ(share.waiting(), 2);
  share.give_back({60, 0}, {});
  EXPECT_TRUE(share.take({41, 0}));
  EXPECT_EQ(share.left(), 53);
}

io::FileBuffer buffer_of(size_t bytes) {
  io::FileBuffer buffer;
  buffer.resize(bytes);
  return buffer;
}

TEST(DecodeShare, FilesThatWaitAreCountedInBytes) {
  constexpr size_t kFile = 1 << 20;
  DecodeShare share(false, 4, 4 * kFile);
  std::vector<io::FileBuffer> files;
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(share.take({10, kFile})) << i;
    files.push_back(buffer_of(kFile));
  }
  EXPECT_FALSE(share.take({10, 1}));  // however small its crop is
  EXPECT_EQ(share.waiting(), 4);
  EXPECT_EQ(share.file_bytes(), 4 * kFile);
  share.give_back({10, kFile}, std::move(files[0]));
  EXPECT_EQ(share.file_bytes(), 4 * kFile);  // spare
  EXPECT_TRUE(share.take({10, kFile / 2}));
  EXPECT_EQ(share.file_bytes(), 3 * kFile + kFile / 2);  // the spare one had to go
  EXPECT_EQ(share.spare_buffer().capacity(), 0);
}

TEST(DecodeShare, SpareBuffersAreBoundedInBytes) {
  constexpr size_t kFile = 1 << 20, kMost = 16 * kFile;
  DecodeShare share(false, 4, kMost);
  for (int i = 0; i < 500; ++i) {  // each picture's file is larger than the buffer that it finds
    ASSERT_TRUE(share.take({10, kFile}));
    share.give_back({10, kFile}, buffer_of(kFile));
    ASSERT_LE(share.file_bytes(), kMost);
  }
  EXPECT_EQ(share.file_bytes(), kMost);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(share.spare_buffer().capacity(), kFile);
  EXPECT_EQ(share.spare_buffer().capacity(), 0);
  EXPECT_EQ(share.file_bytes(), 0);
}

TEST(DecodeShare, ManySmallSpareBuffersAreBoundedInNumber) {
  DecodeShare share(false, 4, 1 << 30);
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(share.take({10, 0}));
    share.give_back({10, 0}, {});
  }
  io::FileBuffer file = buffer_of(1);
  const size_t each = file.capacity();
  for (int i = 0; i < 600; ++i) {
    ASSERT_TRUE(share.take({10, each}));
    share.give_back({10, each}, buffer_of(1));
  }
  EXPECT_EQ(share.file_bytes(), 512 * each);
}

TEST(DecodeShare, AFewPicturesTryADeviceOfUnknownSpeed) {
  DecodeShare share(true, 4, 1000);
  int left = 0;
  for (int i = 0; i < 20; ++i) left += share.take({10, 0});
  EXPECT_EQ(left, 4);
  for (int i = 0; i < 4; ++i) share.give_back({10, 0}, {});
  EXPECT_TRUE(share.take({10, 0}));  // they may have been damaged, all of them
}

TEST(DecodeShare, BothSidesAreBusyForAsLong) {
  for (const double device_us : {10.0, 100.0, 1000.0, 20000.0}) {
    DecodeShare share(true, 4, 1000);
    share.worker_took(1'000'000, false);
    share.worker_took(100'000, true);
    share.device_took(static_cast<int64_t>(device_us * 1000 * 16), 16, 20 * 25'000, 20);
    const int left = left_of(share, 10'000);
    const double threads = ((10'000 - left) * 1000.0 + left * 100.0) / 4,
                 device = left * device_us + 10'000 * 25.0;
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
}  // namespace millrace::loader
