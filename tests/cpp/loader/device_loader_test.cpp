// DeviceLoader on a device that does everything late: the CPU loader's batches, errors and policies, and
// wrong as soon as a guard is gone.
#include "loader/device_loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "device_runs.h"
#include "millrace/error.h"

namespace millrace::loader {
namespace {

using Status = DataLoader::Status;

TEST_F(DeviceLoaderTest, BatchesAreThoseOfTheCpuWhateverTheDeviceDoesWhen) {
  const auto images = dataset();
  const Outcome wanted = on_the_cpu(images, ErrorPolicy::raise, false, 2);
  for (uint32_t seed = 0; seed < 12; ++seed) {
    const DeviceOutcome run =
        on_the_device(images, {.seed = seed, .device_threads = seed % 3 == 0, .epochs = 2});
    ASSERT_EQ(run.seen, wanted.seen) << "seed " << seed;
    ASSERT_EQ(run.changed_sources, 0);
    ASSERT_GT(run.counts->decoded, 60);
    ASSERT_EQ(run.counts->refused, 0);
  }
}

// Of several sizes, some of which are made in one pass and some step by step; from one decoded region.
TEST_F(DeviceLoaderTest, SeveralViewsOfAPictureAreThoseOfTheCpu) {
  const auto images = dataset(/*damaged=*/true);
  for (const std::vector<TransformSpec>& chain :
       {std::vector<TransformSpec>{RandomResizedCrop{16, 12}, HorizontalFlip{},
                                   GaussianBlur{3, 3, {0.5, 1.0}}, ToTensor{OutputType::u8}},
        std::vector<TransformSpec>{Resize{30, 0}, CenterCrop{8, 8}, RandomGrayscale{0.5},
                                   ToTensor{OutputType::u8}}})
    images->views.push_back(transforms::ImagePipeline::create(chain));
  const device::FakeDecoder::Options some{
      .refuses = [](std::span<const uint8_t> bytes) { return bytes.size() % 5 == 0; }};
  for (const ErrorPolicy policy : {ErrorPolicy::raise, ErrorPolicy::skip, ErrorPolicy::replace})
    for (const bool balances : {false, true}) {
      const Outcome wanted = on_the_cpu(images, policy, false, 2);
      for (uint32_t seed = 0; seed < 4; ++seed) {
        const DeviceOutcome run = on_the_device(
            images, {.seed = seed, .policy = policy, .balances = balances, .epochs = 2, .decoder = some});
        ASSERT_EQ(run.seen, wanted.seen) << static_cast<int>(policy);
        ASSERT_EQ(run.left_out, wanted.left_out);
        ASSERT_EQ(run.changed_sources, 0);
        ASSERT_GT(run.left, 0);
      }
    }
}

TEST_F(DeviceLoaderTest, FloatsAreTheCpusButForTheLastBits) {
  for (const OutputType type : {OutputType::f32, OutputType::f16}) {
    auto chain = kChain;
    chain.back() = ToTensor{type};
    chain.emplace_back(Normalize{{0.5, 0.4, 0.3}, {0.25, 0.2, 0.3}});
    const auto images = dataset(false, chain);
    const Outcome wanted = on_the_cpu(images, ErrorPolicy::raise);
    const DeviceOutcome run = on_the_device(images, {});
    ASSERT_EQ(run.seen.size(), wanted.seen.size());
    for (size_t b = 0; b < wanted.seen.size(); ++b) {
      ASSERT_EQ(run.seen[b].images.size(), wanted.seen[b].images.size());
      const base::DType dtype = images->pipeline().output_type();
      for (size_t i = 0; i < wanted.seen[b].images.size() / base::dtype_bytes(dtype); ++i)
        ASSERT_NEAR(device::load_element(run.seen[b].images.data(), dtype, static_cast<int64_t>(i)),
                    device::load_element(wanted.seen[b].images.data(), dtype, static_cast<int64_t>(i)),
                    type == OutputType::f32 ? 1e-6 : 5e-3);
    }
  }
}

// The mutation test: each guard, left out, is noticed.
TEST_F(DeviceLoaderTest, EveryGuardIsNeeded) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "without guards, freed memory is read, which the sanitizer would report as it should";
#endif
  const auto images = dataset();
  const Outcome wanted = on_the_cpu(images, ErrorPolicy::raise, false, 2);
  for (const auto& [guard, name] : {std::pair{device::Guard::wait, "the consumer's wait"},
                                    {device::Guard::used_on, "used_on"},
                                    {device::Guard::is_done, "waiting until work is done"},
                                    {device::Guard::record, "recording the event"}}) {
    int noticed = 0;
    for (uint32_t seed = 0; seed < 30 && noticed == 0; ++seed) {
      const DeviceOutcome run =
          on_the_device(images, {.seed = seed, .forgotten = guard, .epochs = 2, .decoder = {}});
      noticed += run.seen != wanted.seen || run.changed_sources > 0;
    }
    EXPECT_GT(noticed, 0) << "without " << name << " everything still seems right";
  }
}

TEST_F(DeviceLoaderTest, WhatTheDecoderCannotDoIsMadeOnTheCpu) {
  const auto images = dataset();
  const Outcome wanted = on_the_cpu(images, ErrorPolicy::raise);
  for (const bool late : {false, true}) {
    const device::FakeDecoder::Options half{
        .refuses = [](std::span<const uint8_t> bytes) { return bytes.size() % 2 == 0; },
        .refuses_late = late};
    const DeviceOutcome run = on_the_device(images, {.decoder = half});
    EXPECT_EQ(run.seen, wanted.seen);
    EXPECT_GT(run.counts->refused, 5);
    EXPECT_GT(run.counts->decoded, 5);
    const device::FakeDecoder::Options all{.refuses = [](std::span<const uint8_t>) { return true; },
                                           .refuses_late = late};
    EXPECT_EQ(on_the_device(images, {.decoder = all}).seen, wanted.seen);
  }
}

TEST_F(DeviceLoaderTest, ErrorsAndPoliciesAreThoseOfTheCpu) {
  const auto images = dataset(/*damaged=*/true);
  for (const ErrorPolicy policy : {ErrorPolicy::raise, ErrorPolicy::skip, ErrorPolicy::replace}) {
    for (const bool drop_last : {false, true}) {
      const Outcome wanted = on_the_cpu(images, policy, drop_last, 2);
      for (uint32_t seed = 0; seed < 4; ++seed) {
        const DeviceOutcome run =
            on_the_device(images, {.seed = seed, .policy = policy, .drop_last = drop_last, .epochs = 2});
        ASSERT_EQ(run.seen, wanted.seen) << static_cast<int>(policy);
        ASSERT_EQ(run.left_out, wanted.left_out);
        ASSERT_GT(run.counts->refused, 0);
        ASSERT_EQ(run.changed_sources, 0);
      }
    }
  }
}

TEST_F(DeviceLoaderTest, SharedDecodingGivesTheSameBatches) {
  const auto images = dataset(/*damaged=*/true);
  const Outcome wanted = on_the_cpu(images, ErrorPolicy::replace, false, 3);
  for (uint32_t seed = 0; seed < 6; ++seed) {
    const DeviceOutcome run =
        on_the_device(images, {.seed = seed, .policy = ErrorPolicy::replace, .balances = true, .epochs = 3});
    ASSERT_EQ(run.seen, wanted.seen);
    ASSERT_GT(run.left, 0);
  }
}

TEST_F(DeviceLoaderTest, EpochsThatAreLeftEarlyLeaveNothingBehind) {
  const auto images = dataset(/*damaged=*/true);
  const Outcome wanted = on_the_cpu(images, ErrorPolicy::raise);
  for (int stop = 0; stop < 5; ++stop) {
    auto fake = std::make_shared<device::FakeDevice>(
        device::FakeDevice::Options{.seed = static_cast<uint32_t>(stop)});
    auto counts = std::make_shared<device::FakeDecoder::Counts>();
    DeviceLoader loader(images, {.loader = {2, 3, ErrorPolicy::raise, false, {}}}, fake,
                        device::fake_decoding(fake, {}, counts));
    DeviceBatch batch;
    for (int epoch = 0; epoch < 3; ++epoch) {
      loader.start_epoch(9, 0);
      for (const auto& list : lists()) loader.submit(list);
      for (int step = 0; step < stop; ++step) {
        const Seen& expected = wanted.seen[static_cast<size_t>(step)];
        try {
          ASSERT_EQ(loader.next(batch, 60'000), Status::ready);
          fake->finish();
          ASSERT_EQ(std::memcmp(batch.views[0].images.data(), expected.images.data(), expected.images.size()),
                    0);
        } catch (const Error& error) {
          ASSERT_EQ(error.what(), expected.error);
        }
      }
    }
    if (stop % 2 == 0) loader.close();
    EXPECT_EQ(counts->changed_files + fake->changed_sources(), 0);
  }
}

TEST_F(DeviceLoaderTest, AnyThreadMayCloseItAtAnyMoment) {
  const auto images = dataset();
  for (int round = 0; round < 24; ++round) {
    auto fake = std::make_shared<device::FakeDevice>(
        device::FakeDevice::Options{.seed = static_cast<uint32_t>(round)});
    auto counts = std::make_shared<device::FakeDecoder::Counts>();
    DeviceLoader loader(images, {.loader = {2, 3, ErrorPolicy::raise, false, {}}}, fake,
                        device::fake_decoding(fake, {}, counts));
    std::atomic<int> taken{0};
    std::vector<std::thread> closers;
    for (int i = 0; i < 2; ++i)
      closers.emplace_back([&] {
        while (taken < round % 8) std::this_thread::yield();
        loader.close();
      });
    try {
      for (uint64_t epoch = 0;; ++epoch) {
        loader.start_epoch(9, epoch);
        for (const auto& list : lists()) loader.submit(list);
        for (DeviceBatch batch; loader.next(batch, 60'000) == Status::ready;) ++taken;
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unavailable) << error.what();
    }
    for (std::thread& closer : closers) closer.join();
    EXPECT_EQ(counts->changed_files + fake->changed_sources(), 0);
  }
}

TEST_F(DeviceLoaderTest, AFullDeviceIsTheBatchesErrorAndNothingHangs) {
  const auto images = dataset();
  auto fake = std::make_shared<device::FakeDevice>(device::FakeDevice::Options{.memory_bytes = 5000});
  DeviceLoader loader(images, {.loader = {2, 3, ErrorPolicy::raise, false, {}}}, fake,
                      device::fake_decoding(fake, {}, std::make_shared<device::FakeDecoder::Counts>()));
  loader.start_epoch(9, 0);
  for (const auto& list : lists()) loader.submit(list);
  DeviceBatch batch;
  for (size_t b = 0; b < lists().size(); ++b) EXPECT_THROW(loader.next(batch, 60'000), Error);
  EXPECT_EQ(loader.next(batch, 60'000), Status::end);
}

TEST_F(DeviceLoaderTest, ChainsThatOnePassCannotDoAreRefused) {
  auto fake = std::make_shared<device::FakeDevice>(device::FakeDevice::Options{});
  const auto reason = [&](std::vector<TransformSpec> chain) {
    chain.emplace_back(ToTensor{});
    try {
      DeviceLoader(dataset(false, chain), {}, fake, device::fake_decoding(fake, {}, nullptr));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(reason({Resize{32, 0}, CenterCrop{24, 24}, HorizontalFlip{}}), "");
  EXPECT_NE(reason({RandomRotation{{-10, 10}}, RandomResizedCrop{20, 20}}).find("something else"),
            std::string::npos);
  EXPECT_NE(reason({Resize{32, 0}}).find("sizes of their own"), std::string::npos);
  const auto views = dataset();
  views->views.push_back(transforms::ImagePipeline::create(
      {RandomRotation{{-10, 10}}, RandomResizedCrop{20, 20}, ToTensor{OutputType::u8}}));
  EXPECT_THROW(DeviceLoader(views, {}, fake, device::fake_decoding(fake, {}, nullptr)), Error);
}

}  // namespace
}  // namespace millrace::loader
