// TarIndex: what it says against a walk through the archive, saved and loaded, damaged in every byte;
// TarSamples over it.
#include "sources/tar_index.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "../scratch_folder.h"
#include "../tar_bytes.h"
#include "millrace/error.h"
#include "sources/shard_reader.h"
#include "sources/tar_samples.h"

namespace millrace::sources {
namespace {

using namespace tar_bytes;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string shard() {
  return entry("a.jpg", noise(700)) + entry("a.cls", "12") + entry("dir/", "", '5') + entry("b.JPG", "") +
         entry("b.cls", " +7\n") + entry("b.seg.png", "x") + entry("nodot", "y") +
         gnu_long(std::string(200, 'c') + ".cls") + entry("cut", "-3") + entry("d.png", "0x10") +
         entry("d.cls", "12345678901234567890") + entry("a.jpg", "again") + kEnd;
}

std::string described(const TarIndex& index) {
  std::string text = std::to_string(index.shard_bytes()) + "\n";
  for (int64_t i = 0; i < index.size(); ++i) {
    text += index.key(i) + ":";
    for (const TarIndex::File& file : index.files(i))
      text += " " + index.suffixes()[file.suffix] + "@" + std::to_string(file.offset) + "+" +
              std::to_string(file.size) + "=" +
              (file.number == TarIndex::kNoNumber ? "" : std::to_string(file.number));
    text += "\n";
  }
  return text;
}

TEST(TarIndex, SaysWhatAWalkSays) {
  const auto source = memory(shard());
  const TarIndex index = TarIndex::build(source);
  ShardReader reader(source);
  ShardFile file;
  std::string key;
  int64_t sample = -1;
  size_t number = 0;
  while (reader.next(file)) {
    if (sample < 0 || file.key != key) ++sample, number = 0, key = file.key;
    ASSERT_LT(sample, index.size());
    const TarIndex::File& there = index.files(sample)[number++];
    EXPECT_EQ(index.key(sample), key);
    EXPECT_EQ(index.suffixes()[there.suffix], file.suffix);
    EXPECT_EQ(there.offset, file.entry.offset);
    EXPECT_EQ(there.size, file.entry.size);
  }
  EXPECT_EQ(sample + 1, index.size());
  EXPECT_EQ(index.size(), 5);
  EXPECT_EQ(index.shard_bytes(), source->size());
  EXPECT_THROW((void)index.files(5), Error);
  EXPECT_THROW((void)index.files(-1), Error);
  EXPECT_THROW((void)index.key(5), Error);
}

TEST(TarIndex, Numbers) {
  const std::pair<const char*, int64_t> cases[] = {{"0", 0},
                                                   {" 12\n", 12},
                                                   {"-5", -5},
                                                   {"+5", 5},
                                                   {"007", 7},
                                                   {"9223372036854775807", INT64_MAX},
                                                   {"-9223372036854775807", -INT64_MAX},
                                                   {"+-5", TarIndex::kNoNumber},
                                                   {"++5", TarIndex::kNoNumber},
                                                   {"+", TarIndex::kNoNumber},
                                                   {"-", TarIndex::kNoNumber},
                                                   {"", TarIndex::kNoNumber},
                                                   {"  ", TarIndex::kNoNumber},
                                                   {"1 2", TarIndex::kNoNumber},
                                                   {"1.0", TarIndex::kNoNumber},
                                                   {"9223372036854775808", TarIndex::kNoNumber},
                                                   {"0x1", TarIndex::kNoNumber},
                                                   {"1_0", TarIndex::kNoNumber},
                                                   {"a", TarIndex::kNoNumber},
                                                   {"000000000000000000001", TarIndex::kNoNumber}};
  for (const auto& [text, number] : cases) {
    const TarIndex index = TarIndex::build(memory(entry("a.cls", text)));
    EXPECT_EQ(index.files(0)[0].number, number) << text;
  }
}

TEST(TarIndex, WhatCannotBeIndexed) {
  for (const std::string& packed : {gzip(shard()), zstd(shard())}) {
    try {
      TarIndex::build(memory(packed));
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unavailable);
      EXPECT_NE(std::string(error.what()).find("shard.tar"), std::string::npos);
    }
  }
  try {
    TarIndex::build(memory(entry("a.jpg", "1") + entry("a.JPG", "2")));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt_data);
    EXPECT_EQ(error.offset(), 1024);
    EXPECT_NE(std::string(error.what()).find("'a.JPG'"), std::string::npos);
  }
  const std::string whole = shard();
  EXPECT_THROW(TarIndex::build(memory(whole.substr(0, 900))), Error);
  EXPECT_THROW(TarIndex::build(memory("")), Error);
  EXPECT_EQ(TarIndex::build(memory(kEnd)).size(), 0);
}

TEST(TarIndex, SavedAndLoaded) {
  const ScratchFolder folder;
  for (const std::string& bytes : {shard(), kEnd}) {
    const TarIndex index = TarIndex::build(memory(bytes));
    index.save(folder / "i");
    index.save(folder / "i");
    EXPECT_EQ(described(TarIndex::load(folder / "i")), described(index));
  }
  const TarIndex index = TarIndex::build(memory(shard()));
  EXPECT_THROW(index.save(folder / "no/such/folder"), Error);
  EXPECT_THROW(TarIndex::load(folder / "missing"), Error);
  EXPECT_THROW(TarIndex::load(folder.path()), Error);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1)
      << "unfinished files are left behind";
}

TEST(TarIndex, DamagedInEveryByte) {
  const ScratchFolder folder;
  TarIndex::build(memory(shard())).save(folder / "good");
  const std::string good = read_text(folder / "good");
  const auto refused = [&](const std::string& bytes) {
    try {
      TarIndex::load(folder.write("bad", bytes));
      return false;
    } catch (const Error& error) {
      return error.kind() == ErrorKind::corrupt_data && error.path() == folder / "bad";
    }
  };
  EXPECT_FALSE(refused(good));
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
    EXPECT_TRUE(refused(bad)) << at;
    EXPECT_TRUE(refused(good.substr(0, at))) << at;
  }
  EXPECT_TRUE(refused(good + "x"));
  EXPECT_TRUE(refused(good + good));
}

// The checksum keeps out accidents; what somebody wrote on purpose must not lead out of the shard either.
TEST(TarIndex, ForgedIndexesStayInTheShard) {
  const auto checksum = [](const std::string& bytes) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < bytes.size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
      hash = (hash ^ word) * 0x100000001B3u;
      hash ^= hash >> 32;
    }
    return std::string(reinterpret_cast<const char*>(&hash), sizeof hash);
  };
  const ScratchFolder folder;
  TarIndex::build(memory(shard())).save(folder / "good");
  const std::string good = read_text(folder / "good"), body = good.substr(0, good.size() - 8);
  ASSERT_EQ(checksum(body), good.substr(body.size()));
  size_t loaded = 0;
  for (size_t at = 0; at < body.size(); ++at)
    for (const int mask : {0x01, 0x80, 0xFF}) {
      std::string forged = body;
      forged[at] = static_cast<char>(forged[at] ^ mask);
      try {
        const TarIndex index = TarIndex::load(folder.write("forged", forged + checksum(forged)));
        ++loaded;
        for (int64_t i = 0; i < index.size(); ++i) {
          (void)index.key(i);
          for (const TarIndex::File& file : index.files(i)) {
            ASSERT_LT(file.suffix, index.suffixes().size());
            ASSERT_GE(file.offset, 0);
            ASSERT_GE(file.size, 0);
            ASSERT_LE(file.size, index.shard_bytes() - file.offset);
          }
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::corrupt_data) << error.what();
      }
    }
  EXPECT_GT(loaded, 100u);
}

TEST(TarSamples, OneFileOfEachSampleOfAllShards) {
  const std::string one = entry("a.jpg", "A") + entry("a.cls", "1") + entry("b.png", "B") + kEnd,
                    two = entry("c.jpg", "C") + kEnd;
  std::vector<TarSamples::Shard> shards;
  for (const std::string& bytes : {one, kEnd, two}) {
    const auto source = memory(bytes);
    shards.push_back({source, std::make_shared<TarIndex>(TarIndex::build(source))});
  }
  const TarSamples samples(shards, {"jpg", "png"});
  ASSERT_EQ(samples.size(), 3);
  io::FileBuffer buffer;
  std::string all;
  for (int64_t i = 0; i < 3; ++i) {
    samples.read(i, buffer);
    all += samples.name(i) + "=" + std::string(buffer.bytes().begin(), buffer.bytes().end()) + " ";
  }
  EXPECT_EQ(all, "shard.tar/a.jpg=A shard.tar/b.png=B shard.tar/c.jpg=C ");
  EXPECT_THROW(samples.read(3, buffer), Error);
  EXPECT_THROW(samples.read(-1, buffer), Error);
  EXPECT_EQ(TarSamples({}, {"jpg"}).size(), 0);
  try {
    TarSamples(shards, {"cls", "json"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt_data);
    EXPECT_NE(std::string(error.what()).find("sample 'b' has no cls or json, only png"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace millrace::sources
