// StreamSamples: tickets, and many threads that read while others come and go.
#include "sources/stream_samples.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "../tar_bytes.h"
#include "millrace/error.h"

namespace millrace::sources {
namespace {

using tar_bytes::memory;

StreamSamples::Sample sample_of(const std::shared_ptr<const io::ByteSource>& source, int64_t number) {
  return {source,     number % 90,
          10,         std::to_string(number) + ".jpg",
          number * 3, static_cast<uint32_t>(number % 5)};
}

TEST(StreamSamples, TicketsAreNeverUsedAgain) {
  const auto source = memory(tar_bytes::noise(100));
  StreamSamples samples;
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(samples.add(sample_of(source, i)), i);
  EXPECT_EQ(source.use_count(), 6);
  samples.drop_before(3);
  EXPECT_EQ(samples.held(), 2);
  EXPECT_EQ(source.use_count(), 3);
  samples.drop_before(2);
  EXPECT_EQ(samples.held(), 2);
  io::FileBuffer buffer;
  EXPECT_THROW(samples.read(2, buffer), Error);
  EXPECT_THROW(samples.name(5), Error);
  EXPECT_THROW(samples.name(-1), Error);
  EXPECT_EQ(samples.name(4), "shard.tar/4.jpg");
  samples.drop_before(1000);
  EXPECT_EQ(samples.held(), 0);
  EXPECT_EQ(samples.add(sample_of(source, 5)), 5);
  base::SampleKey key{.index = 5};
  samples.identify(key);
  EXPECT_EQ(key.index, 15);
  EXPECT_EQ(key.occurrence, 0u);
}

TEST(StreamSamples, ASampleMayBeAFileOfItsOwn) {
  const std::string path = testing::TempDir() + "stream_samples_file";
  std::ofstream(path) << "content";
  StreamSamples samples;
  const int64_t ticket = samples.add({nullptr, 0, 0, path, 7, 2, nullptr});
  EXPECT_EQ(samples.name(ticket), path);
  io::FileBuffer buffer;
  samples.read(ticket, buffer);
  EXPECT_EQ(std::string(buffer.bytes().begin(), buffer.bytes().end()), "content");
  std::filesystem::remove(path);
  EXPECT_THROW(samples.read(ticket, buffer), Error);
}

TEST(StreamSamples, ManyThreads) {
  constexpr int64_t kSamples = 4000, kThreads = 4, kAhead = 50;
  const std::string content = tar_bytes::noise(100);
  StreamSamples samples;
  std::atomic<int64_t> added{0}, claimed{0};
  std::vector<std::atomic<bool>> done(kSamples);
  std::atomic<int64_t> wrong{0};
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      io::FileBuffer buffer;
      for (;;) {
        const int64_t ticket = claimed++;
        if (ticket >= kSamples) return;
        while (added <= ticket) std::this_thread::yield();
        samples.read(ticket, buffer);
        base::SampleKey key{.index = ticket};
        samples.identify(key);
        const bool right =
            std::string(buffer.bytes().begin(), buffer.bytes().end()) == content.substr(ticket % 90, 10) &&
            samples.name(ticket) == "shard.tar/" + std::to_string(ticket) + ".jpg" && key.index == ticket * 3;
        if (!right) ++wrong;
        done[static_cast<size_t>(ticket)] = true;
      }
    });
  int64_t dropped = 0;
  for (int64_t i = 0; i < kSamples; ++i) {
    samples.add(sample_of(memory(content), i));
    added = i + 1;
    for (; dropped < i - kAhead; ++dropped)
      while (!done[static_cast<size_t>(dropped)]) std::this_thread::yield();
    samples.drop_before(dropped);
    EXPECT_LE(samples.held(), kAhead + 2);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(StreamSamples, PicturesInMemoryStayUntilTheyAreDropped) {
  StreamSamples samples;
  auto bytes = std::make_shared<std::vector<uint8_t>>(2 * 4 * 5 * 3, uint8_t{7});
  const std::weak_ptr<std::vector<uint8_t>> alive = bytes;
  const Pixels first{bytes->data(), 5, 4, 15, 3, 1};
  const int64_t ticket =
      samples.add({nullptr, 1, 0, "", 12, 2, std::make_shared<PixelFiles>(bytes, first, 2, 60)});
  bytes.reset();
  const std::optional<Pixels> found = samples.pixels(ticket);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->data, alive.lock()->data() + 60);
  EXPECT_EQ(found->width, 5);
  EXPECT_EQ(samples.name(ticket), "picture 1 in memory");
  base::SampleKey key{.index = ticket};
  samples.identify(key);
  EXPECT_EQ(key.index, 12);
  EXPECT_EQ(key.occurrence, 2U);
  samples.drop_before(ticket + 1);
  EXPECT_TRUE(alive.expired());
  EXPECT_FALSE(samples.pixels(samples.add({nullptr, 0, 0, "a.jpg", 0, 0, nullptr})));
}

}  // namespace
}  // namespace millrace::sources
