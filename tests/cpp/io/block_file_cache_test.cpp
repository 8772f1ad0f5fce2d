// BlockFile over an entry of the disk cache: shared by whole blocks, verified, and what is known of that
// elsewhere.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "../in_child.h"
#include "block_files.h"
#include "io/block_file.h"
#include "io/crc32c.h"

namespace millrace::io {
namespace {

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
  int64_t* const found =
      static_cast<int64_t*>(::mmap(nullptr, 8, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
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
  EXPECT_EQ(verified_by_another_process(files, data), 2)
      << "somebody wrote to the file, then three blocks were verified";
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
int64_t verified_with_note_changed(const CacheFiles& files, const std::vector<uint8_t>& data, int64_t byte,
                                   bool checksum) {
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
  std::this_thread::sleep_for(std::chrono::milliseconds(
      30));  // a file that was just written to is given another time when it is noted
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

}  // namespace
}  // namespace millrace::io
