// DeviceLoader on a device that does everything late: the CPU loader's batches, errors and policies, and
// wrong as soon as a guard is gone.
#include "loader/device_loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>

#include "../device/fake_decoder.h"
#include "../device/forgetful_device.h"
#include "../scratch_folder.h"
#include "codecs/jpeg_decoder.h"
#include "millrace/error.h"

namespace millrace::loader {
namespace {

using Status = DataLoader::Status;

constexpr std::string_view kMagic = "P6 not a JPEG ";

std::string test_jpeg(const std::string& name) {
  std::ifstream file(std::string(MILLRACE_TEST_DATA) + "/jpeg/" + name + ".jpg", std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

// Decodes a JPEG that stands behind kMagic, as a picture of another format.
class DisguisedJpeg final : public FallbackDecoder {
 public:
  void decode(std::span<const uint8_t> bytes, const std::string& path, transforms::PixelBuffer& out,
              int* orientation) const override {
    const auto jpeg = bytes.subspan(std::min(bytes.size(), kMagic.size()));
    if (bytes.size() <= kMagic.size())
      throw Error(ErrorKind::corrupt_data, "cannot identify image file '" + path + "'", path);
    const codecs::JpegHeader header = codecs::probe_jpeg(jpeg);
    *orientation = header.orientation;
    codecs::JpegDecoder().decode(jpeg, header, {0, 0, header.width, header.height},
                                 out.resize(header.width, header.height));
  }
};

const std::vector<TransformSpec> kChain = {RandomResizedCrop{20, 24}, HorizontalFlip{},
                                           ColorJitter{Range{0.6, 1.4}, Range{0.6, 1.4}},
                                           RandomGrayscale{0.3}, ToTensor{OutputType::u8}};

class DeviceLoaderTest : public ::testing::Test {
 protected:
  // 48 files: what a decoder takes, what is the CPU's from the start (CMYK, another format), and what it
  // finds out (below).
  std::shared_ptr<ImageDataset> dataset(bool damaged = false, std::vector<TransformSpec> chain = kChain) {
    const std::vector<std::string> names = {"420_q75", "444_q90",         "cmyk",     "grey_q85",
                                            "422_q90", "progressive_420", "420_q100", "420_q30"};
    auto paths = std::make_shared<sources::PathTable>();
    auto result = std::make_shared<ImageDataset>();
    for (int i = 0; i < 48; ++i) {
      std::string bytes = test_jpeg(names[static_cast<size_t>(i) % names.size()]);
      if (i % 13 == 5) bytes = std::string(kMagic) + bytes;
      if (damaged && i % 11 == 4) bytes.resize(bytes.size() / 2);  // the CPU sees it at once
      if (damaged && i % 7 == 1)
        bytes = bytes.substr(0, bytes.size() / 4) + "\xFF\xD9";  // only who decodes it does
      if (damaged && i == 30) bytes = kMagic;
      paths->append(folder_.write(std::to_string(damaged) + std::to_string(i) + ".jpg", bytes));
      result->labels.push_back(i * 3);
    }
    result->files = std::make_shared<sources::PathFiles>(paths);
    result->views.push_back(transforms::ImagePipeline::create(std::move(chain)));
    result->fallback = std::make_shared<DisguisedJpeg>();
    return result;
  }

  ScratchFolder folder_;
};

std::vector<std::vector<int64_t>> lists(int64_t samples = 48, int64_t size = 5) {
  std::vector<std::vector<int64_t>> result;
  for (int64_t i = 0; i < samples; ++i) {
    if (i % size == 0) result.emplace_back();
    result.back().push_back((i * 7 + 3) % samples);
  }
  return result;
}

// A batch as it is on the host, or what was thrown in its place.
struct Seen {
  std::vector<uint8_t> images;
  std::vector<int64_t> labels;
  std::string error;
  bool operator==(const Seen&) const = default;
};

struct Outcome {
  std::vector<Seen> seen;
  std::vector<std::string> left_out;
};

std::vector<std::string> paths_of(const LoaderStats& stats) {
  std::vector<std::string> result;
  for (const SampleError& error : stats.errors) result.push_back(error.path + error.reason);
  return result;
}

Outcome on_the_cpu(const std::shared_ptr<ImageDataset>& images, ErrorPolicy policy, bool drop_last = false,
                   int epochs = 1) {
  const auto loader = DataLoader::create(images, {2, 3, policy, drop_last, {}});
  Outcome run;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    loader->start_epoch(9, static_cast<uint64_t>(epoch));
    for (const auto& list : lists()) loader->submit(list);
    loader->end_epoch();
    for (;;) {
      Batch batch;
      Seen& seen = run.seen.emplace_back();
      try {
        if (loader->next(batch, 60'000) == Status::end) break;
        const size_t bytes = static_cast<size_t>(batch.rows * 3 * batch.shape.height * batch.shape.width) *
                             base::dtype_bytes(batch.type);
        seen.images.assign(batch.images.data(), batch.images.data() + bytes);
        seen.labels = batch.labels;
      } catch (const Error& error) {
        seen.error = error.what();
      }
    }
    run.seen.pop_back();
  }
  run.left_out = paths_of(loader->stats());
  return run;
}

struct Setup {
  uint32_t seed = 1;
  bool device_threads = false;
  device::Guard forgotten = device::Guard::none;
  ErrorPolicy policy = ErrorPolicy::raise;
  bool drop_last = false, balances = false;
  int epochs = 1, threads = 3, ahead = 2;
  device::FakeDecoder::Options decoder{};
};

// What lies on the device when a late kernel on the consumer's stream reads it; the batch is dropped as soon
// as that is queued.
struct DeviceOutcome : Outcome {
  int64_t changed_sources = 0;
  std::shared_ptr<device::FakeDecoder::Counts> counts = std::make_shared<device::FakeDecoder::Counts>();
  int64_t left = 0;
};

DeviceOutcome on_the_device(const std::shared_ptr<ImageDataset>& images, Setup setup) {
  DeviceOutcome run;
  auto fake = std::make_shared<device::FakeDevice>(
      device::FakeDevice::Options{.seed = setup.seed, .threads = setup.device_threads});
  std::deque<Seen> read;  // by kernels, which know their place
  {
    DeviceLoaderOptions options;
    options.loader = {setup.threads, 3, setup.policy, setup.drop_last, {}};
    options.balances = setup.balances;
    options.ahead = setup.ahead;
    DeviceLoader loader(images, options, std::make_shared<device::Forgetful>(fake, setup.forgotten),
                        device::fake_decoding(fake, setup.decoder, run.counts));
    for (int epoch = 0; epoch < setup.epochs; ++epoch) {
      loader.start_epoch(9, static_cast<uint64_t>(epoch));
      for (const auto& list : lists()) loader.submit(list);
      loader.end_epoch();
      for (;;) {
        DeviceBatch batch;
        try {
          const Status status = loader.next(batch, 60'000);
          if (status == Status::end) break;
          if (status == Status::pending) throw std::runtime_error("no batch for a minute");
        } catch (const Error& error) {
          read.emplace_back().error = error.what();
          continue;
        }
        Seen& seen = read.emplace_back();
        const size_t bytes = static_cast<size_t>(batch.rows * 3 * batch.shape.height * batch.shape.width) *
                             base::dtype_bytes(batch.type);
        seen.images.resize(bytes);
        seen.labels.resize(static_cast<size_t>(batch.rows));
        fake->launch(0, [&seen, pixels = batch.images.data(), labels = batch.labels.data()] {
          std::memcpy(seen.images.data(), pixels, seen.images.size());
          std::memcpy(seen.labels.data(), labels, seen.labels.size() * sizeof(int64_t));
        });
      }
    }
    run.left_out = paths_of(loader.stats());
    run.left = loader.left_to_device();
  }
  fake->finish();
  run.seen.assign(read.begin(), read.end());
  run.changed_sources = fake->changed_sources() + run.counts->changed_files;
  return run;
}

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
          ASSERT_EQ(std::memcmp(batch.images.data(), expected.images.data(), expected.images.size()), 0);
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
}

}  // namespace
}  // namespace millrace::loader
