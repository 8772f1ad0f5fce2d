// BatchCopier on a device that does everything late: right as it is, and wrong as soon as any one of its
// guards is left out.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "device/batch_copier.h"
#include "forgetful_device.h"
#include "millrace/error.h"

namespace millrace::device {
namespace {

constexpr size_t kBytes = 1000;
enum class Kind { page_locked, staged_large, staged_small };  // small ones share device memory
size_t bytes_of(Kind kind) { return kind == Kind::staged_large ? 20'000 : kBytes; }

// Host memory as a ring of slots has it: who drops the keeper gives it to the next batch, which is written at
// once.
struct HostSlots {
  size_t bytes = kBytes;
  std::vector<std::shared_ptr<std::vector<uint8_t>>> free;
  std::shared_ptr<const void> lease(uint8_t value, const void** data) {
    if (free.empty()) free.push_back(std::make_shared<std::vector<uint8_t>>(bytes));
    auto slot = free.back();
    free.pop_back();
    std::memset(slot->data(), value, bytes);
    *data = slot->data();
    return std::shared_ptr<const void>(slot->data(), [this, slot](const void*) {
      std::memset(slot->data(), 0xEE, bytes);
      free.push_back(slot);
    });
  }
};

struct Outcome {
  int64_t wrong_reads = 0, changed_sources = 0, batches_read = 0;
  size_t most_under_way = 0;
  bool good() const { return wrong_reads == 0 && changed_sources == 0; }
};

// A training loop: two batches ahead, each read by a late kernel, and dropped as soon as the kernel is
// queued.
Outcome train(uint32_t seed, Kind kind, Guard forgotten = Guard::none, bool threads = false,
              int batches = 30) {
  auto fake = std::make_shared<FakeDevice>(FakeDevice::Options{.seed = seed, .threads = threads});
  HostSlots slots{bytes_of(kind), {}};
  std::atomic<int64_t> wrong{0}, read{0};
  Outcome outcome;
  {
    BatchCopier copier(std::make_shared<Forgetful>(fake, forgotten));
    struct Ahead {
      std::vector<DeviceBlock> blocks;
      BatchCopier::Ticket ticket;
      uint8_t value;
    };
    std::deque<Ahead> queue;
    const auto consume = [&] {
      Ahead batch = std::move(queue.front());
      queue.pop_front();
      const StreamId consumer = fake->current_stream();
      copier.hand_out(batch.ticket, batch.blocks, consumer);
      for (const DeviceBlock& block : batch.blocks)
        fake->launch(consumer, [&wrong, &read, data = static_cast<const uint8_t*>(block.data()),
                                value = batch.value, bytes = slots.bytes] {
          ++read;
          const std::vector<uint8_t> expected(bytes, value);
          wrong += std::memcmp(data, expected.data(), bytes) != 0;
        });
    };
    for (int b = 0; b < batches; ++b) {
      std::vector<HostBlock> blocks(2);
      const auto value = static_cast<uint8_t>(b + 1);
      for (HostBlock& block : blocks) {
        block.bytes = slots.bytes;
        block.page_locked = kind == Kind::page_locked;
        block.keeper = slots.lease(value, &block.data);
      }
      auto copied = copier.copy(blocks);
      blocks.clear();
      queue.push_back({std::move(copied), copier.seal(), value});
      outcome.most_under_way = std::max(outcome.most_under_way, copier.under_way());
      if (queue.size() > 2) consume();
    }
    while (!queue.empty()) consume();
  }
  fake->finish();
  outcome.wrong_reads = wrong;
  outcome.changed_sources = fake->changed_sources();
  outcome.batches_read = read;
  return outcome;
}

class BatchCopierKinds : public testing::TestWithParam<Kind> {};
std::string name_of(const testing::TestParamInfo<Kind>& info) {
  switch (info.param) {
    case Kind::page_locked: return "PageLocked";
    case Kind::staged_large: return "StagedLarge";
    default: return "StagedSmall";
  }
}
INSTANTIATE_TEST_SUITE_P(Blocks, BatchCopierKinds,
                         testing::Values(Kind::page_locked, Kind::staged_large, Kind::staged_small), name_of);

TEST_P(BatchCopierKinds, BatchesArriveWhateverTheDeviceDoesWhen) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Outcome outcome = train(seed, GetParam());
    ASSERT_TRUE(outcome.good()) << "seed " << seed << ": " << outcome.wrong_reads << " wrong blocks";
    ASSERT_EQ(outcome.batches_read, 60);
  }
}

TEST_P(BatchCopierKinds, BatchesArriveOnADeviceWithThreadsOfItsOwn) {
  for (uint32_t seed = 0; seed < 10; ++seed) ASSERT_TRUE(train(seed, GetParam(), Guard::none, true).good());
}

// The mutation test: each guard, left out, is noticed.
TEST_P(BatchCopierKinds, EveryGuardIsNeeded) {
  for (const auto& [guard, name] : {std::pair{Guard::wait, "the consumer's wait"},
                                    {Guard::used_on, "used_on"},
                                    {Guard::is_done, "waiting until copies are done"},
                                    {Guard::record, "recording the event"},
                                    {Guard::record_behind_copies, "recording it behind the copies"}}) {
    int noticed = 0;
    for (uint32_t seed = 0; seed < 20; ++seed) noticed += !train(seed, GetParam(), guard).good();
    EXPECT_GT(noticed, 0) << "without " << name << " everything still seems right";
  }
}

TEST(BatchCopier, ItsEndWaitsForTheCopiesUnderWay) {
  int noticed = 0;
  for (const Guard guard : {Guard::none, Guard::synchronize}) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
      auto fake = std::make_shared<FakeDevice>(FakeDevice::Options{.seed = seed});
      HostSlots slots;
      {
        BatchCopier copier(std::make_shared<Forgetful>(fake, guard));
        HostBlock block{nullptr, kBytes, nullptr, true};
        block.keeper = slots.lease(1, &block.data);
        copier.copy({&block, 1});  // not even sealed
      }
      fake->finish();
      if (guard == Guard::none)
        EXPECT_EQ(fake->changed_sources(), 0);
      else
        noticed += fake->changed_sources() > 0;
    }
  }
  EXPECT_GT(noticed, 0);
}

// As after an assertion in somebody's kernel: from then on every call that waits throws.
struct Broken : Forgetful {
  using Forgetful::Forgetful;
  void synchronize(DeviceEvent&) override { throw std::runtime_error("device-side assert"); }
};

TEST(BatchCopier, ADeviceThatHasFailedDoesNotEndTheProcess) {
  auto fake = std::make_shared<FakeDevice>(FakeDevice::Options{});
  const std::vector<uint8_t> bytes(kBytes, 3);
  {
    BatchCopier copier(std::make_shared<Broken>(fake, Guard::none));
    const HostBlock block{bytes.data(), kBytes, nullptr, true};
    copier.copy({&block, 1});
    copier.seal();
    EXPECT_THROW(copier.close(), std::runtime_error);
  }
  fake->finish();
}

TEST(BatchCopier, AMomentStaysWhereItWas) {
  auto fake = std::make_shared<FakeDevice>(FakeDevice::Options{});
  BatchCopier copier(fake);
  const StreamId consumer = fake->current_stream();
  int steps = 0;
  std::vector<BatchCopier::Ticket> moments;
  for (int i = 0; i < 5; ++i) {
    fake->launch(consumer, [&steps] { ++steps; });
    moments.push_back(copier.record(consumer));
  }
  for (int i = 0; i < 5; ++i) {
    copier.wait_for(moments[static_cast<size_t>(i)]);
    EXPECT_EQ(steps, i + 1);
  }
}

TEST(BatchCopier, NothingIsAllocatedInTheSteadyState) {
  auto fake = std::make_shared<FakeDevice>(FakeDevice::Options{});
  BatchCopier copier(fake);
  const std::vector<uint8_t> bytes(kBytes, 3);
  const HostBlock block{bytes.data(), kBytes, nullptr, false};
  int64_t host = 0, device = 0;
  for (int b = 0; b < 50; ++b) {
    auto copied = copier.copy({&block, 1});
    const auto ticket = copier.seal();
    copier.hand_out(ticket, copied, fake->current_stream());
    copied.clear();
    fake->finish();
    if (b == 5) host = fake->host_allocations(), device = fake->allocations();
  }
  EXPECT_EQ(fake->host_allocations(), host);
  EXPECT_EQ(fake->allocations(), device);
  EXPECT_EQ(fake->copies(), 50);
}

TEST(BatchCopier, SmallBlocksTravelTogether) {
  auto fake = std::make_shared<FakeDevice>(FakeDevice::Options{});
  BatchCopier copier(fake);
  std::vector<HostBlock> blocks;
  std::vector<uint8_t> bytes(kBytes);
  for (size_t i = 0; i < kBytes; ++i) bytes[i] = static_cast<uint8_t>(i);
  for (size_t i = 0; i < 5; ++i) blocks.push_back({bytes.data() + i, i * 7, nullptr, false});
  const auto copied = copier.copy(blocks);
  copier.hand_out(copier.seal(), copied, 0);
  fake->finish();
  EXPECT_EQ(fake->copies(), 1);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(std::memcmp(copied[i].data(), bytes.data() + i, i * 7), 0);
    EXPECT_EQ(copied[i].offset % 256, 0u);
  }
}

TEST(BatchCopier, AnEmptyBlockIsABlock) {
  auto fake = std::make_shared<FakeDevice>(FakeDevice::Options{});
  BatchCopier copier(fake);
  const HostBlock block{};
  const auto copied = copier.copy({&block, 1});
  ASSERT_NE(copied[0].memory, nullptr);
  copier.hand_out(copier.seal(), copied, 0);
}

TEST(BatchCopier, AFullDeviceIsAnErrorAndLosesNothing) {
  auto fake = std::make_shared<FakeDevice>(FakeDevice::Options{.memory_bytes = 2 * kBytes});
  BatchCopier copier(fake);
  const std::vector<uint8_t> bytes(kBytes, 3);
  const HostBlock block{bytes.data(), kBytes, nullptr, true};
  const auto first = copier.copy({&block, 1});
  const std::vector<HostBlock> two{block, block};
  EXPECT_THROW(copier.copy(two), Error);
  const auto second = copier.copy({&block, 1});
  copier.hand_out(copier.seal(), second, 0);
  fake->finish();
  EXPECT_EQ(std::memcmp(second[0].data(), bytes.data(), kBytes), 0);
}

}  // namespace
}  // namespace millrace::device
