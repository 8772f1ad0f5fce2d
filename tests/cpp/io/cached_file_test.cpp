// CachedFile and EntryLock: whole entries of the disk cache, read as local files are, verified, in use, and
// given up when damaged.
#include "io/cached_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../in_child.h"
#include "block_files.h"
#include "io/entry_lock.h"
#include "millrace/error.h"

namespace millrace::io {
namespace {

constexpr int64_t kSize = 4500;  // 5 blocks
const std::string kHeader = "version 1";

// Bytes in memory: what the store would give.
class Fetched final : public ByteSource {
 public:
  explicit Fetched(std::vector<uint8_t> data) : data_(std::move(data)) {}
  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(data_.size()); }
  void read_at(int64_t offset, std::span<uint8_t> into) const override {
    ++reads;
    std::copy_n(data_.begin() + offset, into.size(), into.begin());
  }
  mutable std::atomic<int> reads{0};

 private:
  const std::string name_ = "fetched";
  const std::vector<uint8_t> data_;
};

// An entry of `size` bytes, of which `filled` are there.
struct Entry : CacheFiles {
  std::vector<uint8_t> bytes;
  std::shared_ptr<CacheCounts> counts = std::make_shared<CacheCounts>();
  std::shared_ptr<Fetched> fetched;
  std::atomic<int> opened{0};

  explicit Entry(int64_t filled = kSize)
      : CacheFiles(kSize), bytes(pattern(kSize)), fetched(std::make_shared<Fetched>(bytes)) {
    EXPECT_EQ(::pwrite(map, kHeader.data(), kHeader.size(), 0), static_cast<ssize_t>(kHeader.size()));
    CacheFiles::open(kSize)->write(0, part(bytes, 0, filled));
  }

  std::shared_ptr<const ByteSource> open(const std::string& header = kHeader, int64_t size = kSize) {
    CachedFileOptions options;
    options.name = "https://host/object";
    options.data_path = folder / "data";
    options.map_path = folder / "map";
    options.header = header;
    options.map_offset = 64;
    options.size = size;
    options.block_bytes = kBlock;
    options.counts = counts;
    options.otherwise = [this]() -> std::shared_ptr<const ByteSource> {
      ++opened;
      return fetched;
    };
    return CachedFile::open(options);
  }

  void damage(int64_t at) const {
    const auto wrong = static_cast<uint8_t>(bytes[static_cast<size_t>(at)] ^ 1);
    ASSERT_EQ(::pwrite(data, &wrong, 1, at), 1);
  }

  bool in_use() const {
    const int fd = ::open((folder / "map").c_str(), O_RDONLY);
    const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) != 0;
    ::close(fd);
    return locked;
  }
};

TEST(CachedFile, OpensWhatIsWholeAndRight) {
  Entry entry;
  EXPECT_NE(entry.open(), nullptr);
  EXPECT_EQ(entry.open("version 2"), nullptr);
  EXPECT_EQ(entry.open(kHeader, kSize - 1), nullptr) << "the data file has another size";
  EXPECT_EQ(Entry(kSize - 1).open(), nullptr) << "a block is missing";
  ASSERT_EQ(::ftruncate(entry.map, 64 + 8 * 4), 0);
  EXPECT_EQ(entry.open(), nullptr) << "a record is missing";
  ASSERT_EQ(::unlink((entry.folder / "data").c_str()), 0);
  EXPECT_EQ(entry.open(), nullptr);
  ASSERT_EQ(::unlink((entry.folder / "map").c_str()), 0);
  EXPECT_EQ(entry.open(), nullptr);
  EXPECT_THROW(entry.open(kHeader, 0), Error);
}

TEST(CachedFile, IsInUseWhileItLives) {
  Entry entry;
  auto first = entry.open(), second = entry.open();
  EXPECT_TRUE(entry.in_use());
  first.reset();
  EXPECT_TRUE(entry.in_use());
  second.reset();
  EXPECT_FALSE(entry.in_use());
  const int evicting = ::open((entry.folder / "map").c_str(), O_RDONLY);
  ASSERT_EQ(::flock(evicting, LOCK_EX), 0);
  EXPECT_EQ(entry.open(), nullptr) << "it is about to go";
  ::close(evicting);
  first = entry.open();
  ASSERT_EQ(::unlink((entry.folder / "data").c_str()) + ::unlink((entry.folder / "map").c_str()), 0);
  EXPECT_EQ(read(*first, 0, kSize), entry.bytes) << "whoever has it keeps it";
}

TEST(CachedFile, VerifiesWhatNobodyVouchesFor) {
  Entry entry;
  EXPECT_EQ(read(*entry.open(), 0, kSize), entry.bytes);
  EXPECT_EQ(entry.counts->verified_blocks, 0) << "who wrote it said so";
  EXPECT_EQ(entry.counts->hit_blocks, 5);
  ASSERT_EQ(::pwrite(entry.data, entry.bytes.data(), 1, 0), 1);  // another time of writing
  const auto source = entry.open();
  for (const auto& [offset, bytes] :
       {std::pair<int64_t, int64_t>{1500, 10}, {1990, 20}, {1500, 600}, {4499, 1}, {kSize, 0}})
    EXPECT_EQ(read(*source, offset, bytes),
              std::vector<uint8_t>(entry.bytes.begin() + offset, entry.bytes.begin() + offset + bytes));
  EXPECT_EQ(entry.counts->verified_blocks, 3) << "blocks 1, 2 and 4, once each";
  EXPECT_EQ(entry.counts->hit_blocks, 8);
  EXPECT_THROW(read(*source, kSize - 1, 2), Error);
  EXPECT_THROW(read(*source, -1, 1), Error);
}

TEST(CachedFile, TellsWhatItVerified) {
  Entry entry;
  ASSERT_EQ(::pwrite(entry.data, entry.bytes.data(), 1, 0), 1);
  EXPECT_EQ(read(*entry.open(), 0, 2000).size(), 2000u);
  EXPECT_EQ(entry.counts->verified_blocks, 2);
  EXPECT_EQ(read(*entry.open(), 0, kSize), entry.bytes);
  EXPECT_EQ(entry.counts->verified_blocks, 5);
  EXPECT_EQ(read(*entry.open(), 0, kSize), entry.bytes);
  EXPECT_EQ(entry.counts->verified_blocks, 5);
}

TEST(CachedFile, ADamagedBlockIsFetchedByAllReadersOnce) {
  Entry entry;
  entry.damage(2500);
  const auto source = entry.open();
  EXPECT_EQ(read(*source, 0, 2000), std::vector<uint8_t>(entry.bytes.begin(), entry.bytes.begin() + 2000));
  EXPECT_EQ(entry.opened, 0);
  std::atomic<int> right{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i)
    readers.emplace_back([&] {
      for (int j = 0; j < 20; ++j) right += read(*source, 0, kSize) == entry.bytes;
    });
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(right, 80);
  EXPECT_EQ(entry.opened, 1);
  EXPECT_TRUE(entry.in_use());
}

TEST(CachedFile, AFileThatShrinksIsFetched) {
  Entry entry;
  const auto source = entry.open();
  ASSERT_EQ(::ftruncate(entry.data, 1200), 0);
  EXPECT_EQ(read(*source, 0, kSize), entry.bytes);
  EXPECT_EQ(entry.opened, 1);
}

TEST(CachedFile, AForkedChildReadsButFetchesNothing) {
  Entry entry;
  const auto source = entry.open();
  EXPECT_TRUE(in_child([&] { return read(*source, 0, kSize) == entry.bytes; }));
  ASSERT_EQ(::ftruncate(entry.data, 1200), 0);
  EXPECT_TRUE(in_child([&] {
    try {
      read(*source, 0, kSize);
    } catch (const Error& error) {
      return error.kind() == ErrorKind::unavailable && entry.opened == 0;
    }
    return false;
  }));
}

// The parent of the one that holds on: it opens, forks and dies.
TEST(EntryLock, AForkedChildKeepsNothingInUse) {
  Entry entry;
  int ready[2], over[2];
  ASSERT_EQ(::pipe(ready) + ::pipe(over), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    EntryLock lock(entry.folder / "map");
    if (::fork() == 0) {
      char byte;
      ::close(over[1]);
      _exit(::write(ready[1], "", 1) == 1 && ::read(over[0], &byte, 1) == 0 ? 0 : 1);
    }
    ::pause();
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_TRUE(entry.in_use());
  ASSERT_EQ(::kill(parent, SIGKILL), 0);
  int status;
  ASSERT_EQ(::waitpid(parent, &status, 0), parent);
  EXPECT_FALSE(entry.in_use()) << "although a child of it lives";
  for (const int fd : {ready[0], ready[1], over[0], over[1]}) ::close(fd);
}

TEST(EntryLock, ManyThreadsAndForks) {
  Entry entry;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      while (!stop) {
        const EntryLock lock(entry.folder / "map");
        EXPECT_TRUE(lock.is_held());
      }
    });
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(in_child([&] {
      const EntryLock own(entry.folder / "map");
      return own.is_held();
    }));
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_FALSE(entry.in_use());
}

}  // namespace
}  // namespace millrace::io
