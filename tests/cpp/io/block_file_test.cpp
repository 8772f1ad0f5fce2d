// BlockFile: bytes in any order to any number of readers, held within bounds, shared through the disk cache's map.
#include "io/block_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "../in_child.h"
#include "../scratch_folder.h"
#include "io/crc32c.h"
#include "millrace/error.h"

namespace millrace {
namespace {

constexpr int64_t kBlock = 1000;

std::vector<uint8_t> pattern(int64_t bytes) {
  std::vector<uint8_t> data(static_cast<size_t>(bytes));
  std::mt19937 random(7);
  for (auto& byte : data) byte = static_cast<uint8_t>(random());
  return data;
}

std::span<const uint8_t> part(const std::vector<uint8_t>& data, int64_t offset, int64_t bytes) {
  const auto size = static_cast<int64_t>(data.size());
  offset = std::min(offset, size);
  return {data.data() + offset, static_cast<size_t>(std::min(bytes, size - offset))};
}

std::shared_ptr<BlockFile> make(int64_t size, bool sequential = false, int64_t max_held = 0) {
  BlockFileOptions options;
  options.name = "s3://bucket/object";
  options.size = size;
  options.block_bytes = kBlock;
  options.sequential = sequential;
  options.max_held_bytes = max_held;
  return std::make_shared<BlockFile>(options);
}

std::vector<uint8_t> read(const ByteSource& source, int64_t offset, int64_t bytes) {
  std::vector<uint8_t> into(static_cast<size_t>(bytes));
  source.read_at(offset, into);
  return into;
}

// What a fetcher does, until stopped: brings what is asked for, in pieces of any size.
class Fetcher {
 public:
  Fetcher(BlockFile& file, const std::vector<uint8_t>& data, unsigned seed) : thread_([this, &file, &data, seed] {
    std::mt19937 random(seed);
    while (!stop_) {
      for (const int64_t block : file.take_wanted()) {
        for (int64_t at = block * kBlock, end = std::min<int64_t>(at + kBlock, file.size()); at < end;) {
          const int64_t bytes = std::min<int64_t>(end - at, 1 + random() % 700);
          file.write(at, part(data, at, bytes));
          at += bytes;
        }
      }
      std::this_thread::yield();
    }
  }) {}
  ~Fetcher() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST(Crc32c, KnownValuesAndPieces) {
  const std::string digits = "123456789";
  const auto* bytes = reinterpret_cast<const uint8_t*>(digits.data());
  EXPECT_EQ(crc32c(0, {bytes, 9}), 0xe3069283u);
  EXPECT_EQ(crc32c_portable(0, {bytes, 9}), 0xe3069283u);
  const auto data = pattern(50'000);
  for (const size_t cut : {0, 1, 7, 8, 9, 2500, 12'287, 12'288, 12'289, 24'580, 37'000, 49'999, 50'000}) {
    const std::span<const uint8_t> all(data);
    EXPECT_EQ(crc32c(0, all.first(cut)), crc32c_portable(0, all.first(cut))) << cut;
    EXPECT_EQ(crc32c(crc32c(0, all.first(cut)), all.subspan(cut)), crc32c_portable(0, all)) << cut;
  }
}

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
  std::thread reader([&] { EXPECT_EQ(read(*source, 3500, 2000), std::vector<uint8_t>(data.begin() + 3500, data.begin() + 5500)); });
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
  for (const auto& [kind, code] : {std::pair{ErrorKind::not_found, ENOENT}, {ErrorKind::system, EACCES}, {ErrorKind::corrupt_data, 0}}) {
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
  for (int64_t block = 0; block < 12; ++block) file->write(block * kBlock + 900, part(data, block * kBlock + 900, 100));
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

struct CacheFiles {
  ScratchFolder folder;
  int data, map;
  explicit CacheFiles(int64_t size)
      : data(::open((folder / "data").c_str(), O_RDWR | O_CREAT, 0600)), map(::open((folder / "map").c_str(), O_RDWR | O_CREAT, 0600)) {
    EXPECT_EQ(::ftruncate(data, size), 0);
    EXPECT_EQ(::ftruncate(map, 64 + 8 * ((size + kBlock - 1) / kBlock)), 0);
  }
  ~CacheFiles() {
    ::close(data);
    ::close(map);
  }
  std::shared_ptr<BlockFile> open(int64_t size, int64_t block_bytes = kBlock) const {
    BlockFileOptions options;
    options.name = "https://host/object";
    options.size = size;
    options.block_bytes = block_bytes;
    options.cache_fd = data;
    options.map_fd = map;
    options.map_offset = 64;
    return std::make_shared<BlockFile>(options);
  }
};

TEST(BlockFileInCache, SharesWholeBlocksOnly) {
  const auto data = pattern(4500);
  const CacheFiles files(4500);
  const auto one = files.open(4500), two = files.open(4500);
  one->write(0, part(data, 0, 2700));
  two->refresh();
  EXPECT_EQ(two->filled(1), 1000);
  EXPECT_EQ(two->filled(2), 0) << "begun, not whole";
  two->write(2000, part(data, 2000, 2500));
  one->refresh();
  one->write(2700, part(data, 2700, 300));
  EXPECT_TRUE(one->stats().complete && two->stats().complete);
  EXPECT_EQ(read(*one->reader(), 0, 4500), data);
  EXPECT_EQ(read(*two->reader(), 0, 4500), data);
  EXPECT_EQ(two->stats().hit_blocks, 2);
  EXPECT_EQ(two->stats().miss_blocks, 3);
  EXPECT_EQ(files.open(4500)->next_missing(0), 5);
}

TEST(BlockFileInCache, FetchesAgainWhatDoesNotMatch) {
  const auto data = pattern(4500);
  const CacheFiles files(4500);
  files.open(4500)->write(0, data);
  const uint8_t wrong = static_cast<uint8_t>(data[1234] ^ 1);
  ASSERT_EQ(::pwrite(files.data, &wrong, 1, 1234), 1);
  ASSERT_EQ(::ftruncate(files.data, 4100), 0);  // and the last block is cut
  const auto file = files.open(4500);
  const Fetcher fetcher(*file, data, 9);
  const auto source = file->reader();
  EXPECT_EQ(read(*source, 1200, 100), std::vector<uint8_t>(data.begin() + 1200, data.begin() + 1300));
  EXPECT_EQ(read(*source, 0, 4500), data);
  EXPECT_EQ(file->stats().repaired_blocks, 2);
  file->refresh();
  EXPECT_EQ(read(*files.open(4500)->reader(), 0, 4500), data) << "for those who come later, too";
}

// Each of them sees that others read the block, too: somebody has to give it up.
TEST(BlockFileInCache, ManyReadersOfADamagedBlock) {
  constexpr int64_t kLarge = 4 << 20;
  const auto data = pattern(kLarge);
  const CacheFiles files(kLarge);
  files.open(kLarge, kLarge)->write(0, data);
  const uint8_t wrong = static_cast<uint8_t>(data[1234] ^ 1);
  ASSERT_EQ(::pwrite(files.data, &wrong, 1, 1234), 1);
  const auto file = files.open(kLarge, kLarge);
  std::atomic<int> done{0};
  std::vector<std::thread> readers;
  for (int64_t i = 0; i < 4; ++i)
    readers.emplace_back([&, i, source = file->reader()] {
      if (read(*source, 1234 + i, 1)[0] == data[static_cast<size_t>(1234 + i)]) ++done;
    });
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (done < 4 && std::chrono::steady_clock::now() < until)
    if (!file->take_wanted().empty()) file->write(0, data);
  ASSERT_EQ(done, 4);
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(file->stats().repaired_blocks, 1);
}

// How many blocks a new process compares with their records when it reads everything.
int64_t verified_by_another_process(const CacheFiles& files, const std::vector<uint8_t>& data) {
  int64_t* const found = static_cast<int64_t*>(::mmap(nullptr, 8, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  EXPECT_TRUE(in_child([&] {
    const auto size = static_cast<int64_t>(data.size());
    const auto file = files.open(size);
    const bool right = read(*file->reader(), 0, size) == data;
    *found = file->stats().verified_blocks;
    return right;
  }));
  const int64_t blocks = *found;
  ::munmap(found, 8);
  return blocks;
}

TEST(BlockFileInCache, WhatOneProcessVerifiedOthersKnow) {
  const auto data = pattern(4500);
  const CacheFiles files(4500);
  files.open(4500)->write(0, data);
  EXPECT_EQ(verified_by_another_process(files, data), 0) << "who wrote them said so";
  ASSERT_EQ(::pwrite(files.data, data.data(), 1, 0), 1);
  EXPECT_EQ(read(*files.open(4500)->reader(), 0, 2500).size(), 2500u);
  EXPECT_EQ(verified_by_another_process(files, data), 2) << "somebody wrote to the file, then three blocks were verified";
  EXPECT_EQ(verified_by_another_process(files, data), 0) << "added to what was noted before";

  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // times of a file move in ticks
  struct stat before;
  ASSERT_EQ(::fstat(files.data, &before), 0);
  const uint8_t wrong = static_cast<uint8_t>(data[1234] ^ 1);
  ASSERT_EQ(::pwrite(files.data, &wrong, 1, 1234), 1);
  const timespec same[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::futimens(files.data, same), 0);
  const auto file = files.open(4500);
  const Fetcher fetcher(*file, data, 9);
  EXPECT_EQ(read(*file->reader(), 1234, 1)[0], data[1234]) << "a time that was put back";
}

// Changes a byte of the note, puts its checksum right if asked, and says how many blocks are verified then.
int64_t verified_with_note_changed(const CacheFiles& files, const std::vector<uint8_t>& data, int64_t byte, bool checksum) {
  constexpr int64_t kAt = 64 + 5 * 8, kBytes = 36 + 24 + 1 + 4;
  std::vector<uint8_t> note(kBytes);
  EXPECT_EQ(::pread(files.map, note.data(), kBytes, kAt), kBytes);
  const auto kept = note;
  note[static_cast<size_t>(byte)] ^= 1;
  const uint32_t fresh = crc32c(0, std::span(note).first(kBytes - 4));
  if (checksum) std::memcpy(note.data() + kBytes - 4, &fresh, 4);
  EXPECT_EQ(::pwrite(files.map, note.data(), kBytes, kAt), kBytes);
  const int64_t verified = verified_by_another_process(files, data);
  EXPECT_EQ(::pwrite(files.map, kept.data(), kBytes, kAt), kBytes);
  return verified;
}

TEST(BlockFileInCache, ANoteOfAnotherBootOrFileOrATornOneIsWorthNothing) {
  const auto data = pattern(4500);
  const CacheFiles files(4500);
  files.open(4500)->write(0, data);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // a file that was just written to is given another time when it is noted
  ASSERT_EQ(verified_by_another_process(files, data), 0);
  EXPECT_EQ(verified_with_note_changed(files, data, 3, true), 5) << "boot";
  EXPECT_EQ(verified_with_note_changed(files, data, 36, true), 5) << "inode";
  EXPECT_EQ(verified_with_note_changed(files, data, 44, true), 5) << "written";
  EXPECT_EQ(verified_with_note_changed(files, data, 52, true), 5) << "changed";
  EXPECT_EQ(verified_with_note_changed(files, data, 60, true), 1) << "the bit of one block";
  EXPECT_EQ(verified_with_note_changed(files, data, 60, false), 5) << "torn";
  ASSERT_EQ(::ftruncate(files.map, 64 + 5 * 8 + 10), 0);
  EXPECT_EQ(verified_by_another_process(files, data), 5) << "cut";
}

TEST(BlockFileInCache, WhatComesFromTheDiskIsVerified) {
  const auto data = pattern(3 << 20);
  const CacheFiles files(3 << 20);
  files.open(3 << 20)->write(0, data);
  ASSERT_EQ(verified_by_another_process(files, data), 0);
  ASSERT_EQ(::fdatasync(files.data), 0);
  ASSERT_EQ(::posix_fadvise(files.data, 1 << 20, 1 << 20, POSIX_FADV_DONTNEED), 0);
  std::vector<unsigned char> resident(768);
  void* const window = ::mmap(nullptr, 3 << 20, PROT_READ, MAP_SHARED, files.data, 0);
  ASSERT_EQ(::mincore(window, 3 << 20, resident.data()), 0);
  ::munmap(window, 3 << 20);
  if (std::all_of(resident.begin(), resident.end(), [](unsigned char page) { return page & 1; }))
    GTEST_SKIP() << "this file system keeps everything in memory";
  const int64_t verified = verified_by_another_process(files, data);
  EXPECT_GE(verified, 900);
  EXPECT_LE(verified, 2300) << "what is in memory still is not read again";
}

TEST(BlockFileInCache, GoesOnInMemoryWhenTheDiskIsFull) {
  const auto data = pattern(9500);
  CacheFiles files(9500);
  ::close(files.data);
  files.data = ::memfd_create("full", MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(files.data, 2500), 0);
  ASSERT_EQ(::fcntl(files.data, F_ADD_SEALS, F_SEAL_GROW), 0);  // a disk with room for 2,500 bytes
  const auto file = files.open(9500);
  EXPECT_EQ(file->write(0, part(data, 0, 2300)), 2300);
  EXPECT_EQ(file->stats().cache_errno, 0);
  EXPECT_EQ(file->write(2300, part(data, 2300, 7200)), 7200);
  EXPECT_EQ(file->stats().cache_errno, EPERM);
  EXPECT_EQ(file->stats().held_bytes, 7500) << "the block that had begun has moved";
  EXPECT_EQ(read(*file->reader(), 0, 9500), data);
  EXPECT_EQ(files.open(9500)->next_missing(0), 2) << "only what is on disk is there for others";
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
}  // namespace millrace
