// What the tests of BlockFile share: bytes, a fetcher, and the files of an entry in the disk cache.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "../scratch_folder.h"
#include "io/block_file.h"

namespace millrace::io {

constexpr int64_t kBlock = 1000;

inline std::vector<uint8_t> pattern(int64_t bytes) {
  std::vector<uint8_t> data(static_cast<size_t>(bytes));
  std::mt19937 random(7);
  for (auto& byte : data) byte = static_cast<uint8_t>(random());
  return data;
}

inline std::span<const uint8_t> part(const std::vector<uint8_t>& data, int64_t offset, int64_t bytes) {
  const auto size = static_cast<int64_t>(data.size());
  offset = std::min(offset, size);
  return {data.data() + offset, static_cast<size_t>(std::min(bytes, size - offset))};
}

inline std::shared_ptr<BlockFile> make(int64_t size, bool sequential = false, int64_t max_held = 0) {
  BlockFileOptions options;
  options.name = "s3://bucket/object";
  options.size = size;
  options.block_bytes = kBlock;
  options.sequential = sequential;
  options.max_held_bytes = max_held;
  return std::make_shared<BlockFile>(options);
}

inline std::vector<uint8_t> read(const ByteSource& source, int64_t offset, int64_t bytes) {
  std::vector<uint8_t> into(static_cast<size_t>(bytes));
  source.read_at(offset, into);
  return into;
}

// What a fetcher does, until stopped: brings what is asked for, in pieces of any size.
class Fetcher {
 public:
  Fetcher(BlockFile& file, const std::vector<uint8_t>& data, unsigned seed)
      : thread_([this, &file, &data, seed] {
          std::mt19937 random(seed);
          while (!stop_) {
            for (const int64_t block : file.take_wanted()) {
              for (int64_t at = block * kBlock, end = std::min<int64_t>(at + kBlock, file.size());
                   at < end;) {
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

struct CacheFiles {
  ScratchFolder folder;
  int data, map;
  explicit CacheFiles(int64_t size)
      : data(::open((folder / "data").c_str(), O_RDWR | O_CREAT, 0600)),
        map(::open((folder / "map").c_str(), O_RDWR | O_CREAT, 0600)) {
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

}  // namespace millrace::io
