// ByteStream: any sequence of reads and skips gives what a copy of the bytes gives, plain and packed; local
// files and their ends.
#include "io/byte_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../scratch_folder.h"
#include "../tar_bytes.h"
#include "millrace/error.h"

namespace millrace::io {
namespace {

using namespace tar_bytes;

class Mixes : public testing::TestWithParam<const char*> {};

std::string packed_as(const std::string& kind, const std::string& content) {
  if (kind == "gzip") return gzip(content);
  if (kind == "gzip members") return in_pieces(content, 77'777, gzip);
  if (kind == "zstd") return zstd(content);
  if (kind == "zstd frames") return in_pieces(content, 77'777, zstd);
  return content;
}

TEST_P(Mixes, OfReadsAndSkips) {
  std::mt19937 random(7);
  // Half of it repeats, so that packed content comes in pieces of many lengths.
  const std::string content = noise(700'000) + std::string(700'000, 'z') + noise(300'000, 2);
  const auto source = memory(packed_as(GetParam(), content));
  const size_t sizes[] = {0,      1,      2,      511,    512,     513,     4095,    4096,   4097,
                          16'383, 16'384, 16'385, 70'000, 262'143, 262'144, 262'145, 400'000};
  for (int round = 0; round < 40; ++round) {
    const auto stream = open_stream(source);
    const size_t most = round % 4 == 0 ? std::size(sizes) : 4 + static_cast<size_t>(round) % 10;
    size_t at = 0;
    std::string got;
    for (int step = 0; step < 3000 && at < content.size(); ++step) {
      const size_t wanted = sizes[random() % most] + random() % 3,
                   expected = std::min(wanted, content.size() - at);
      ASSERT_GE(stream->most_left(), static_cast<int64_t>(content.size() - at));
      if (random() % 3 == 0) {
        ASSERT_EQ(stream->skip(static_cast<int64_t>(wanted)), static_cast<int64_t>(expected));
      } else {
        got.assign(wanted, '\0');
        ASSERT_EQ(stream->read({reinterpret_cast<uint8_t*>(got.data()), wanted}), expected);
        ASSERT_EQ(got.compare(0, expected, content, at, expected), 0) << "at " << at;
      }
      at += expected;
      ASSERT_EQ(stream->position(), static_cast<int64_t>(at));
    }
    stream->skip(INT64_MAX);
    EXPECT_EQ(stream->position(), static_cast<int64_t>(content.size()));
    uint8_t byte;
    EXPECT_EQ(stream->read({&byte, 1}), 0u);
    EXPECT_EQ(stream->skip(1), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Mixes, testing::Values("plain", "gzip", "gzip members", "zstd", "zstd frames"));

TEST(ByteStream, EmptyAndShortSources) {
  for (const std::string content : {"", "x", "\x1F", "\x28\xB5\x2F", "P*M"}) {
    const auto stream = open_stream(memory(content));
    std::string got(10, '\0');
    EXPECT_EQ(stream->read({reinterpret_cast<uint8_t*>(got.data()), got.size()}), content.size());
    EXPECT_FALSE(stream->packed());
  }
  for (const std::string& empty : {gzip(""), zstd("")}) {
    const auto stream = open_stream(memory(empty));
    uint8_t byte;
    EXPECT_EQ(stream->read({&byte, 1}), 0u);
    EXPECT_TRUE(stream->packed());
  }
}

TEST(LocalFile, ReadAnywhereByManyThreads) {
  const ScratchFolder folder;
  const std::string content = noise(300'000), path = folder.write("file", content);
  for (const bool keep_open : {true, false}) {
    const auto file = open_local_file(path, "a name", keep_open);
    EXPECT_EQ(file->name(), "a name");
    EXPECT_EQ(file->size(), 300'000);
    std::vector<std::thread> threads;
    for (unsigned seed = 0; seed < 4; ++seed)
      threads.emplace_back([&, seed] {
        std::mt19937 random(seed);
        std::vector<uint8_t> bytes(1000);
        for (int i = 0; i < 200; ++i) {
          const size_t at = random() % 299'000;
          file->read_at(static_cast<int64_t>(at), bytes);
          EXPECT_TRUE(
              std::equal(bytes.begin(), bytes.end(), reinterpret_cast<const uint8_t*>(content.data()) + at));
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(LocalFile, SaysWhereItWasCut) {
  const ScratchFolder folder;
  const std::string path = folder.write("file", noise(5000));
  const auto file = open_local_file(path);
  std::filesystem::resize_file(path, 3000);
  std::vector<uint8_t> bytes(1000);
  file->read_at(2000, bytes);
  try {
    file->read_at(2500, bytes);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt_data);
    EXPECT_EQ(error.offset(), 3000);
    EXPECT_EQ(error.path(), path);
  }
}

TEST(LocalFile, WhatIsNoFile) {
  const ScratchFolder folder;
  EXPECT_THROW(open_local_file(folder / "missing"), Error);
  EXPECT_THROW(open_local_file(folder.path()), Error);
  const auto gone = open_local_file(folder.write("gone", "abc"), {}, false);
  std::filesystem::remove(folder / "gone");
  uint8_t byte;
  EXPECT_THROW(gone->read_at(0, {&byte, 1}), Error);
}

}  // namespace
}  // namespace millrace::io
