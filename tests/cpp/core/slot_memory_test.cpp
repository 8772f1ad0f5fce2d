// Blocks are page-aligned and zero; the cache gives the warm one back, keeps its bound, and survives fork().
#include "core/slot_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "core/batch_ring.h"
#include "millrace/error.h"

namespace millrace::core {
namespace {

class SlotMemory : public ::testing::Test {
 protected:
  void SetUp() override { empty_slot_cache(); }
  void TearDown() override { empty_slot_cache(); }
};

TEST_F(SlotMemory, BlocksAreAlignedZeroAndAtLeastAsLargeAsAsked) {
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{4096}, size_t{4097}, kHugeFrom - 1, kHugeFrom, kHugeFrom + 12345}) {
    const MemoryBlock block(bytes);
    ASSERT_GE(block.size_bytes(), bytes);
    ASSERT_LT(block.size_bytes(), bytes + 4097);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data()) % (bytes >= kHugeFrom ? size_t{2} << 20 : 4096), 0u);
    EXPECT_EQ(block.data()[0], 0);
    EXPECT_EQ(block.data()[block.size_bytes() - 1], 0);
    std::memset(block.data(), 1, block.size_bytes());
  }
}

TEST_F(SlotMemory, MoreThanTheAddressSpaceIsAnErrorThatSaysWhatToDo) {
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX / 2, size_t{1} << 60}) {
    try {
      const MemoryBlock block(bytes);
      FAIL() << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::system);
      EXPECT_EQ(error.code(), ENOMEM);
      EXPECT_NE(std::string(error.what()).find("smaller batch size"), std::string::npos) << error.what();
    }
  }
}

TEST_F(SlotMemory, TheCacheGivesBackTheBlockPutInLast) {
  MemoryBlock a(100'000), b(100'000);
  const uint8_t* last = b.data();
  cache_block(std::move(a));
  cache_block(std::move(b));
  EXPECT_EQ(take_block(90'000).data(), last);
}

TEST_F(SlotMemory, TheCacheNeitherGivesTooSmallNorFarTooLargeBlocks) {
  cache_block(MemoryBlock(1'000'000));
  EXPECT_LT(take_block(400'000).size_bytes(), 500'000u);
  EXPECT_GE(take_block(2'000'000).size_bytes(), 2'000'000u);
  EXPECT_GE(empty_slot_cache(), 1'000'000u);
}

TEST_F(SlotMemory, TheCacheKeepsItsBoundAndDropsTheOldest) {
  const size_t piece = kSlotCacheBytes / 4;
  std::vector<const uint8_t*> addresses;
  std::vector<MemoryBlock> blocks;
  for (int i = 0; i < 6; ++i) blocks.emplace_back(piece);  // never touched: address space only
  for (MemoryBlock& block : blocks) {
    addresses.push_back(block.data());
    cache_block(std::move(block));
  }
  for (int i = 5; i >= 2; --i) {
    blocks.push_back(take_block(piece));
    EXPECT_EQ(blocks.back().data(), addresses[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(empty_slot_cache(), 0u);
  cache_block(MemoryBlock(kSlotCacheBytes + 4096));
  EXPECT_EQ(empty_slot_cache(), 0u);
}

TEST_F(SlotMemory, AChildForkedWhileOthersUseTheCacheCanUseItToo) {
  std::atomic<bool> stop{false};
  std::thread busy([&stop] {
    while (!stop) cache_block(take_block(70'000));
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);  // a cache that was forked while locked would wait for ever
      cache_block(take_block(70'000));
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  stop = true;
  busy.join();
}

}  // namespace
}  // namespace millrace::core
