// TarReader and ShardReader: every form of header that is found in the wild, and every one that is refused.
#include "sources/tar_reader.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "millrace/error.h"
#include "sources/shard_reader.h"
#include "../tar_bytes.h"

namespace millrace::sources {
namespace {

using namespace tar_bytes;

using Files = std::vector<std::pair<std::string, std::string>>;  // names and contents

// Everything in an archive, and how the reading ended.
struct Read {
  Files files;
  std::vector<int64_t> headers, offsets;
  std::optional<Error> error;
};

Read read_all(const std::string& archive) {
  Read read;
  try {
    TarReader tar(io::open_stream(memory(archive)), "shard.tar");
    for (TarEntry entry; tar.next(entry);) {
      std::string content(static_cast<size_t>(entry.size), '\0');
      tar.read({reinterpret_cast<uint8_t*>(content.data()), content.size()});
      read.files.emplace_back(entry.name, content);
      read.headers.push_back(entry.header);
      read.offsets.push_back(entry.offset);
    }
  } catch (const Error& error) {
    read.error = error;
  }
  return read;
}

Files files(const std::string& archive) {
  const Read read = read_all(archive);
  EXPECT_FALSE(read.error) << read.error->what();
  return read.files;
}

void expect_refused(const std::string& archive, ErrorKind kind, const std::string& reason, int64_t offset,
                    size_t files_before = 0) {
  const Read read = read_all(archive);
  ASSERT_TRUE(read.error) << reason;
  EXPECT_EQ(read.error->kind(), kind) << read.error->what();
  EXPECT_NE(std::string(read.error->what()).find(reason), std::string::npos) << read.error->what();
  EXPECT_NE(std::string(read.error->what()).find("shard.tar"), std::string::npos) << read.error->what();
  EXPECT_EQ(read.error->offset(), offset) << read.error->what();
  EXPECT_EQ(read.files.size(), files_before);
}

std::string long_name(size_t length) {
  std::string name = "folder/";
  while (name.size() < length) name += static_cast<char>('a' + name.size() % 26);
  return name;
}

const std::string kOne = entry("a.txt", "one");

TEST(TarReader, NamesOfAllFormats) {
  const std::string prefix = long_name(155), name = long_name(100), very_long = long_name(70'000);
  EXPECT_EQ(files(Header{.name = name, .size = octal(3), .prefix = prefix}.bytes() + padded("abc") + kEnd),
            (Files{{prefix + "/" + name, "abc"}}));
  EXPECT_EQ(files(Header{.name = "short", .size = octal(3), .magic = kOld}.bytes() + padded("abc") + kEnd),
            (Files{{"short", "abc"}}));
  // GNU's and old headers have other things where POSIX has the prefix.
  EXPECT_EQ(files(Header{.name = "g", .magic = kGnu, .prefix = "12345670"}.bytes() + kEnd),
            (Files{{"g", ""}}));
  EXPECT_EQ(files(Header{.name = "v", .magic = kOld, .prefix = "zz"}.bytes() + kEnd), (Files{{"v", ""}}));
  EXPECT_EQ(files(gnu_long(very_long) + entry("cut", "abc", '0', kGnu) + kOne + kEnd),
            (Files{{very_long, "abc"}, {"a.txt", "one"}}));
  EXPECT_EQ(files(gnu_long("target", 'K') + gnu_long(very_long) + entry("cut", "", '2') + kOne),
            (Files{{"a.txt", "one"}}));
  EXPECT_EQ(files(pax(record("path", very_long)) + entry("cut", "abc") + kOne),
            (Files{{very_long, "abc"}, {"a.txt", "one"}}));
  const std::string bytes = "\xFF\xC3\x28\n=\x01.jpg";
  EXPECT_EQ(
      files(pax(record("mtime", "1.5") + record("path", bytes) + record("comment", "")) + entry("x", "abc")),
      (Files{{bytes, "abc"}}));
  // Sun's letter for the same records; another program's for what belongs to all files.
  EXPECT_EQ(files(pax(record("path", very_long), 'X') + entry("cut", "abc") + kOne),
            (Files{{very_long, "abc"}, {"a.txt", "one"}}));
  EXPECT_EQ(files(pax(record("comment", "git's"), 'g') + kOne), (Files{{"a.txt", "one"}}));
}

TEST(TarReader, WhatBelongsToASkippedEntryIsForgotten) {
  EXPECT_EQ(files(pax(record("path", "other")) + entry("folder/", "", '5') + kOne),
            (Files{{"a.txt", "one"}}));
  EXPECT_EQ(files(gnu_long("other") + entry("link", "", '1') + kOne), (Files{{"a.txt", "one"}}));
  EXPECT_EQ(files(pax(record("size", "512")) + entry("x", "", 'V') + padded("volume") + kOne),
            (Files{{"a.txt", "one"}}));
}

TEST(TarReader, SizesOfAllFormats) {
  const std::string content = noise(1500);
  for (const std::string& size : {octal(1500), octal(1500, 12), std::string("       2734 "), base256(1500),
                                  std::string("2734\0zzz", 8)})
    EXPECT_EQ(files(Header{.name = "a", .size = size}.bytes() + padded(content) + kOne),
              (Files{{"a", content}, {"a.txt", "one"}}))
        << size;
  EXPECT_EQ(files(pax(record("size", "1500")) + Header{.name = "a"}.bytes() + padded(content) + kOne),
            (Files{{"a", content}, {"a.txt", "one"}}));
  EXPECT_EQ(files(Header{.name = "empty", .size = ""}.bytes() + kOne),
            (Files{{"empty", ""}, {"a.txt", "one"}}));
}

TEST(TarReader, OnlyRegularFilesAreGiven) {
  // Links and folders have no content whatever their size says; a new kind has, as its size says.
  for (const char type : {'1', '2', '3', '4', '5', '6'})
    EXPECT_EQ(files(Header{.name = "x", .size = octal(700), .type = type}.bytes() + kOne),
              (Files{{"a.txt", "one"}}))
        << type;
  for (const char type : {'V', 'M', 'D', 'Z'})
    EXPECT_EQ(files(entry("x", noise(700), type) + kOne), (Files{{"a.txt", "one"}})) << type;
  EXPECT_EQ(files(entry("a", "1", '7') + entry("b", "2", '\0', kOld)), (Files{{"a", "1"}, {"b", "2"}}));
  // Before POSIX, a slash at the end told folders.
  EXPECT_EQ(files(Header{.name = "old/", .size = octal(700), .type = '\0', .magic = kOld}.bytes() + kOne),
            (Files{{"a.txt", "one"}}));
}

TEST(TarReader, ChecksumsOfBothKinds) {
  Header header{.name = "\xE4\xF6\xFC"};
  header.signed_checksum = true;
  EXPECT_EQ(files(header.bytes() + kOne), (Files{{"\xE4\xF6\xFC", ""}, {"a.txt", "one"}}));
  for (const int32_t wrong : {-1, 1, 256}) {
    header.add_to_checksum = wrong;
    expect_refused(kOne + header.bytes() + kOne, ErrorKind::corrupt_data, "wrong checksum of a header", 1024,
                   1);
  }
  expect_refused(noise(2000), ErrorKind::corrupt_data, "this is no tar archive", 0);
  // Any other bit of a header.
  for (size_t at = 0; at < 512; ++at) {
    std::string bad = kOne + kOne;
    bad[1024 + at] = static_cast<char>(bad[1024 + at] ^ 0x02);
    const Read read = read_all(bad);
    const bool same_checksum = at == 155;  // behind its end
    EXPECT_EQ(read.error.has_value(), !same_checksum) << at;
  }
}

TEST(TarReader, Ends) {
  EXPECT_EQ(files(kOne + kEnd).size(), 1u);
  EXPECT_EQ(files(kOne).size(), 1u) << "no block of zeros";
  EXPECT_EQ(files(kOne + std::string(512, '\0')).size(), 1u) << "one block of zeros";
  EXPECT_EQ(files(kOne + std::string(512, '\0') + kOne).size(), 1u)
      << "what is behind a block of zeros does not count";
  EXPECT_EQ(files(kOne + kEnd + "anything").size(), 1u);
  for (const size_t cut : {515u, 516u, 1023u})
    expect_refused(kOne.substr(0, cut), ErrorKind::corrupt_data, "ends in the padding", 0, 1);
  EXPECT_EQ(files(kEnd), Files{});
  expect_refused("", ErrorKind::corrupt_data, "the archive is empty", 0);
  expect_refused(kOne + kOne.substr(0, 100), ErrorKind::corrupt_data, "ends inside a header", 1024, 1);
  for (const std::string& announced :
       {gnu_long("name"), gnu_long("target", 'K'), pax(record("path", "name"))})
    for (const std::string& end : {std::string(), kEnd})
      expect_refused(kOne + announced + end, ErrorKind::corrupt_data, "before the file that has them", 1024,
                     1);
  EXPECT_EQ(files(kOne + pax(record("comment", "x"), 'g') + kEnd).size(), 1u);
}

TEST(TarReader, SparseFilesAreRefused) {
  expect_refused(kOne + entry("s.jpg", "abc", 'S', kGnu), ErrorKind::unavailable, "'s.jpg' is a sparse file",
                 1024, 1);
  for (const char* key : {"GNU.sparse.major", "GNU.sparse.size", "GNU.sparse.map"})
    expect_refused(pax(record(key, "1")) + entry("GNUSparseFile.1/s.jpg", "abc"), ErrorKind::unavailable,
                   "sparse file", 1024);
}

TEST(TarReader, SizesThatCannotBe) {
  const int64_t hundred_gb = int64_t{100} << 30;
  const auto sized = [](const std::string& size) {
    return kOne + Header{.name = "big.jpg", .size = size}.bytes() + noise(2048);
  };
  expect_refused(sized(base256(hundred_gb)), ErrorKind::corrupt_data,
                 "'big.jpg' is said to have 107374182400 bytes", 1024, 1);
  expect_refused(sized(octal(int64_t{8} << 30, 12)), ErrorKind::corrupt_data,
                 "the archive ends inside 'big.jpg'", 1024, 1);
  expect_refused(sized(base256(INT64_MAX)), ErrorKind::corrupt_data, "is said to have", 1024, 1);
  expect_refused(sized(base256(-512)), ErrorKind::corrupt_data, "no number", 1024, 1);
  expect_refused(sized(std::string("\x80\0\0\x01\0\0\0\0\0\0\0\0", 12)), ErrorKind::corrupt_data, "no number",
                 1024, 1);
  expect_refused(sized(std::string("\x80") + std::string(11, '\xFF')), ErrorKind::corrupt_data, "no number",
                 1024, 1);
  for (const char* size : {"-0000000001", "00000000999", "0x000000010"})
    expect_refused(sized(size), ErrorKind::corrupt_data, "no number", 1024, 1);
  for (const char* size : {"-1", "99999999999999999999", "1e3", "", " 12", "0x10"})
    expect_refused(pax(record("size", size)) + entry("a", noise(600)), ErrorKind::corrupt_data,
                   "size is no number", 0);
  expect_refused(pax(record("size", "1000000000000")) + entry("a", noise(600)), ErrorKind::corrupt_data,
                 "is said to have", 1024);
}

TEST(TarReader, NamesThatCannotBe) {
  expect_refused(Header{.name = "x", .size = octal(kMostNameBytes + 1), .type = 'L'}.bytes() + noise(2 << 20),
                 ErrorKind::corrupt_data, "a name or its attributes", 0);
  expect_refused(Header{.name = "x", .size = octal(3000), .type = 'L'}.bytes() + noise(1000),
                 ErrorKind::corrupt_data, "ends inside", 0);
  for (const std::string& records :
       {std::string("12"), std::string("5 a=b"), std::string("3 =\n"), std::string("0 path=x\n"),
        std::string("99999999999999999999 a=b\n"), std::string("8 abcde\n"), std::string("a=b\n"),
        std::string("-6 a=b\n"), std::string("7 a=b\n"), std::string("6 a=bc\n")})
    expect_refused(pax(records) + kOne, ErrorKind::corrupt_data, "PAX record", 0);
  EXPECT_EQ(files(pax(record("path", "p") + std::string(3, '\0')) + kOne), (Files{{"p", "one"}}));
}

TEST(TarReader, ContentInPiecesAndNotAtAll) {
  const std::string content = noise(100'000);
  const std::string archive = entry("a", content) + entry("b", content) + entry("c", content) + kEnd;
  for (const std::string& bytes : {archive, gzip(archive), zstd(archive)}) {
    TarReader tar(io::open_stream(memory(bytes)), "shard.tar");
    TarEntry entry;
    ASSERT_TRUE(tar.next(entry));
    ASSERT_TRUE(tar.next(entry));
    EXPECT_EQ(entry.name, "b");
    EXPECT_EQ(entry.offset, 512 + 100'352 + 512);
    std::string got(70'000, '\0');
    for (size_t at = 0; at < got.size(); at += 700)
      tar.read({reinterpret_cast<uint8_t*>(got.data()) + at, 700});
    EXPECT_EQ(got, content.substr(0, 70'000));
    ASSERT_TRUE(tar.next(entry));
    EXPECT_EQ(entry.name, "c");
    EXPECT_FALSE(tar.next(entry));
    EXPECT_FALSE(tar.next(entry));
  }
}

TEST(ShardReader, KeysAndSuffixes) {
  const auto split = [](const std::string& name) {
    std::string key, suffix;
    return split_sample_name(name, key, suffix) ? key + "|" + suffix : "none";
  };
  EXPECT_EQ(split("a.jpg"), "a|jpg");
  EXPECT_EQ(split("a.b/c.seg.PNG"), "a.b/c|seg.png");
  EXPECT_EQ(split("a."), "a|");
  EXPECT_EQ(split("./a.x"), "./a|x");
  EXPECT_EQ(split("a/b/.jpg"), "a/b/|jpg");
  EXPECT_EQ(split("a.b/c/.jpg"), "a.b/c/|jpg");
  for (const char* name : {"", "a", ".jpg", "a.b/c", "a.b/.jpg", "..", "a/b"})
    EXPECT_EQ(split(name), "none") << name;
}

TEST(ShardReader, FilterRenamesAndLeavesOut) {
  const std::string archive =
      entry("a.jpg", "1") + entry("b.jpg", "2") + entry("__meta__/x.json", "3") + entry("c", "4") + kEnd;
  ShardReader all(memory(archive)), some(memory(archive), [](std::string& name) {
    if (name == "a.jpg") return false;
    name += ".x";
    return true;
  });
  ShardFile file;
  ASSERT_TRUE(all.next(file) && all.next(file));
  EXPECT_EQ(file.key + "|" + file.suffix, "b|jpg");
  EXPECT_FALSE(all.next(file));
  ASSERT_TRUE(some.next(file));
  EXPECT_EQ(file.key + "|" + file.suffix, "b|jpg.x");
  ASSERT_TRUE(some.next(file));
  EXPECT_EQ(file.key + "|" + file.suffix, "c|x");
}

}  // namespace
}  // namespace millrace::sources
