// BlockFile: bytes in any order to any number of readers, held within bounds; block_file_cache_test.cpp has
// the disk cache.
#include "io/block_file.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "../in_child.h"
#include "block_files.h"
#include "millrace/error.h"

namespace millrace::io {
namespace {

TEST(BlockFile, TakesWhatContinuesABlockOnce) {
  const auto data = pattern(2500);
  const auto file = make(2500);
  EXPECT_EQ(file->blocks(), 3);
  EXPECT_EQ(file->write(1000, part(data, 1000, 400)), 400);
  EXPECT_EQ(file->write(1000, part(data, 1000, 600)), 200) << "a second transfer of the same bytes";
  EXPECT_EQ(file->write(1700, part(data, 1700, 100)), 0) << "a gap";
  EXPECT_EQ(file->filled(1), 600);
  EXPECT_EQ(file->write(0, part(data, 0, 2500)), 1900) << "over all blocks";
  EXPECT_EQ(file->next_missing(0), 3);
  EXPECT_TRUE(file->stats().complete);
  EXPECT_EQ(read(*file->reader(), 0, 2500), data);
  EXPECT_THROW(file->write(2000, part(data, 0, 501)), Error);
  EXPECT_EQ(make(0)->next_missing(0), 0);
  EXPECT_TRUE(make(0)->stats().complete);
}

TEST(BlockFile, ReadersWaitAndAsk) {
  const auto data = pattern(10'500);
  const auto file = make(10'500);
  const auto source = file->reader();
  std::thread reader([&] {
    EXPECT_EQ(read(*source, 3500, 2000), std::vector<uint8_t>(data.begin() + 3500, data.begin() + 5500));
  });
  std::vector<int64_t> wanted;
  while (wanted.size() < 3)
    for (const int64_t block : file->take_wanted()) wanted.push_back(block);
  EXPECT_EQ(std::vector<int64_t>(wanted.begin(), wanted.begin() + 3), (std::vector<int64_t>{3, 4, 5}));
  file->write(5000, part(data, 5000, 500));
  file->write(4000, part(data, 4000, 1000));
  file->write(3000, part(data, 3000, 1000));
  reader.join();
  EXPECT_GT(file->stats().waited_ns, 0);
}

TEST(BlockFile, FailuresKeepTheirKind) {
  for (const auto& [kind, code] :
       {std::pair{ErrorKind::not_found, ENOENT}, {ErrorKind::system, EACCES}, {ErrorKind::corrupt_data, 0}}) {
    const auto file = make(3000);
    file->write(0, pattern(1000));
    const auto source = file->reader();
    std::thread later([&, k = kind, c = code] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      file->fail(Error(k, "no", file->name(), -1, c));
      file->close();
    });
    try {
      read(*source, 500, 1000);
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), kind);
      EXPECT_EQ(e.code(), code);
    }
    later.join();
    EXPECT_EQ(read(*source, 0, 1000), pattern(1000)) << "what is here stays readable";
  }
  const auto file = make(10);
  try {
    read(*file->reader(), 5, 6);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::corrupt_data);
  }
}

TEST(BlockFile, AWaitCanBeInterrupted) {
  BlockFileOptions options;
  options.size = 10;
  options.while_waiting = [] { throw std::runtime_error("Ctrl-C"); };
  const auto file = std::make_shared<BlockFile>(options);
  EXPECT_THROW(read(*file->reader(), 0, 1), std::runtime_error);
}

TEST(BlockFile, LeavesBehindWhatASequentialReaderPassed) {
  const auto data = pattern(100'000);
  const auto file = make(100'000, true);
  const auto source = file->reader();
  file->write(0, part(data, 0, 50'000));
  EXPECT_EQ(file->stats().held_bytes, 50'000);
  EXPECT_EQ(read(*source, 0, 40'000), std::vector<uint8_t>(data.begin(), data.begin() + 40'000));
  read(*source, 40'000, 10);
  EXPECT_LE(file->stats().held_bytes, 12'000);
  EXPECT_EQ(file->write(0, part(data, 0, 1000)), 0) << "a late transfer brings nothing back";
  const Fetcher fetcher(*file, data, 3);
  EXPECT_EQ(read(*source, 0, 100'000), data) << "going back asks again";
}

TEST(BlockFile, HoldsNoMoreThanItMay) {
  const auto data = pattern(200'000);
  const auto file = make(200'000, false, 20'000);
  const Fetcher fetcher(*file, data, 4);
  const auto source = file->reader();
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    const int64_t offset = random() % 190'000, bytes = 1 + random() % 10'000;
    const auto got = read(*source, offset, bytes);
    ASSERT_TRUE(std::equal(got.begin(), got.end(), data.begin() + offset));
    ASSERT_LE(file->stats().held_bytes, 24'000);
  }
}

TEST(BlockFile, KeepsWhatAReaderWaitsFor) {
  const auto data = pattern(20'000);
  const auto file = make(20'000, false, 4 * kBlock);
  std::atomic<int> done{0};
  std::vector<std::thread> readers;
  for (int64_t block = 0; block < 12; ++block)
    readers.emplace_back([&, block, source = file->reader()] {
      try {
        const auto got = read(*source, block * kBlock, kBlock);
        if (std::equal(got.begin(), got.end(), data.begin() + block * kBlock)) ++done;
      } catch (const Error&) {
      }
    });
  for (size_t asked = 0; asked < 12;) asked += file->take_wanted().size();
  for (int64_t block = 0; block < 12; ++block) file->write(block * kBlock, part(data, block * kBlock, 900));
  for (int64_t block = 0; block < 12; ++block)
    file->write(block * kBlock + 900, part(data, block * kBlock + 900, 100));
  for (int i = 0; i < 500 && done < 12; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  file->close();
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(done, 12) << "each block was brought once, and its reader was there";
}

TEST(BlockFile, ManyReadersAndRacingTransfers) {
  const auto data = pattern(120'345);
  for (const bool sequential : {false, true}) {
    const auto file = make(120'345, sequential, sequential ? 0 : 30'000);
    std::vector<std::thread> readers;
    {
      const Fetcher one(*file, data, 1), two(*file, data, 2);
      for (unsigned seed = 0; seed < 4; ++seed) {
        readers.emplace_back([&, seed] {
          const auto source = file->reader();
          std::mt19937 random(seed);
          for (int i = 0; i < 60; ++i) {
            const int64_t offset = random() % 110'000, bytes = 1 + random() % 10'000;
            source->will_read(offset, bytes);
            const auto got = read(*source, offset, bytes);
            EXPECT_TRUE(std::equal(got.begin(), got.end(), data.begin() + offset));
            file->stats();
          }
        });
      }
      for (auto& reader : readers) reader.join();
    }
    EXPECT_EQ(file->stats().readers, 0);
  }
}

TEST(BlockFile, AForkedChildDoesNotWait) {
  const auto file = make(1000);
  const auto source = file->reader();
  EXPECT_TRUE(in_child([&] {
    try {
      read(*source, 0, 1);
    } catch (const Error& e) {
      return e.kind() == ErrorKind::unavailable;
    }
    return false;
  }));
}

TEST(BlockFile, WakesItsFetcher) {
  const int wake = ::eventfd(0, EFD_NONBLOCK);
  BlockFileOptions options;
  options.size = 100;
  options.wake_fd = wake;
  const auto file = std::make_shared<BlockFile>(options);
  auto source = file->reader();
  uint64_t count = 0;
  EXPECT_LT(::read(wake, &count, 8), 0);
  source->will_read(0, 10);
  EXPECT_EQ(::read(wake, &count, 8), 8);
  source.reset();
  EXPECT_EQ(::read(wake, &count, 8), 8) << "nobody reads it any more";
  ::close(wake);
}

}  // namespace
}  // namespace millrace::io
