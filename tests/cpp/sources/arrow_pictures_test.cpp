// ArrowPictures: rows of bytes, rows that are paths, rows that are neither, damaged offsets, and a mapped file
// that is cut short.
#include "sources/arrow_pictures.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "../scratch_folder.h"
#include "millrace/error.h"

namespace millrace::sources {
namespace {

// Strings behind each other, which begin at an odd address.
struct Column {
  explicit Column(const std::vector<std::string>& rows) : bytes(1) {
    std::vector<int32_t> found{0};
    for (const std::string& row : rows) {
      data += row;
      found.push_back(static_cast<int32_t>(data.size()));
    }
    set(found);
  }
  void set(const std::vector<int32_t>& offsets) {
    bytes.resize(1 + offsets.size() * sizeof(int32_t));
    std::memcpy(bytes.data() + 1, offsets.data(), bytes.size() - 1);
  }
  ArrowPictures::Strings strings() const {
    return {bytes.data() + 1, {reinterpret_cast<const uint8_t*>(data.data()), data.size()}};
  }
  std::string data;
  std::vector<uint8_t> bytes;
};

constexpr uint8_t kNull = ArrowPictures::kNull, kBytes = ArrowPictures::kBytes, kPath = ArrowPictures::kPath;

std::string read(const ArrowPictures& pictures, int64_t index, io::FileBuffer& buffer) {
  pictures.read(index, buffer);
  return {reinterpret_cast<const char*>(buffer.bytes().data()), buffer.bytes().size()};
}

std::string refusal(const ArrowPictures& pictures, int64_t index, ErrorKind kind = ErrorKind::corrupt_data) {
  io::FileBuffer buffer;
  try {
    pictures.read(index, buffer);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "";
}

TEST(ArrowPictures, BytesPathsAndNulls) {
  const ScratchFolder folder;
  const Column bytes({"", "abc", "", "de"});
  const Column paths({folder.write("b.jpg", "file"), "a.jpg", "", ""});
  const std::vector<uint8_t> kinds{kPath, kBytes, kNull, kBytes}, first{kBytes};
  const Column more({"first"});
  const ArrowPictures pictures(
      "image", {{first, more.strings(), {}, nullptr}, {kinds, bytes.strings(), paths.strings(), nullptr}});
  io::FileBuffer buffer;
  ASSERT_EQ(pictures.size(), 5);
  EXPECT_EQ(read(pictures, 0, buffer), "first");
  EXPECT_EQ(read(pictures, 1, buffer), "file");
  EXPECT_EQ(read(pictures, 2, buffer), "abc");
  EXPECT_EQ(read(pictures, 4, buffer), "de");
  EXPECT_NE(refusal(pictures, 3).find("row 3 of column 'image' is null"), std::string::npos);
  EXPECT_EQ(pictures.name(0), "row 0 of column 'image'");
  EXPECT_EQ(pictures.name(1), folder / "b.jpg");
  EXPECT_EQ(pictures.name(2), "row 2 of column 'image' (a.jpg)");
  EXPECT_EQ(pictures.name(4), "row 4 of column 'image'");
  for (const int64_t outside : {-1, 5}) refusal(pictures, outside, ErrorKind::out_of_range);
  EXPECT_THROW(pictures.name(5), Error);
}

TEST(ArrowPictures, NothingInThemIsBelieved) {
  Column bytes({"abc", "de"});
  const std::string null_character("a\0b", 3);
  const Column paths({null_character, "missing.jpg"});
  const std::vector<uint8_t> kinds{kBytes, kBytes}, of_paths{kPath, kPath}, odd{3};
  for (const std::vector<int32_t>& offsets :
       std::vector<std::vector<int32_t>>{{-1, 2, 5}, {4, 2, 5}, {0, 6, 5}}) {
    bytes.set(offsets);
    const ArrowPictures pictures("image", {{kinds, bytes.strings(), {}, nullptr}});
    EXPECT_NE(refusal(pictures, 0).find("lies outside of its chunk"), std::string::npos);
  }
  const ArrowPictures files("image", {{of_paths, {}, paths.strings(), nullptr}});
  EXPECT_NE(refusal(files, 0).find("null character"), std::string::npos);
  refusal(files, 1, ErrorKind::not_found);
  using Chunks = std::vector<ArrowPictures::Chunk>;
  EXPECT_THROW(ArrowPictures("image", Chunks{{odd, bytes.strings(), {}, nullptr}}), Error);
  EXPECT_THROW(ArrowPictures("image", Chunks{{kinds, {}, paths.strings(), nullptr}}), Error);
  EXPECT_THROW(ArrowPictures("image", Chunks{{of_paths, bytes.strings(), {}, nullptr}}), Error);
}

TEST(ArrowPictures, MappedFilesMayBeCutShortWhileThreadsRead) {
  constexpr size_t kPage = 4096, kRows = 4;
  const ScratchFolder folder;
  const std::string path = folder.write("table", std::string(kRows * kPage, 'x'));
  FILE* const file = std::fopen(path.c_str(), "r+");
  auto* const data =
      static_cast<uint8_t*>(mmap(nullptr, kRows * kPage, PROT_READ, MAP_SHARED, fileno(file), 0));
  {
    Column rows(std::vector<std::string>(kRows, std::string(kPage, 'x')));
    const std::vector<uint8_t> kinds(kRows, kBytes);
    const std::shared_ptr<const void> keeper(
        data, [](const void* kept) { munmap(const_cast<void*>(kept), kRows * kPage); });
    const ArrowPictures pictures("image",
                                 {{kinds, {rows.strings().offsets, {data, kRows * kPage}}, {}, keeper}});
    std::atomic<int> refused{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        io::FileBuffer buffer;
        while (refused < 40) {
          try {
            pictures.read(kRows - 1, buffer);
          } catch (const Error&) {
            ++refused;
          }
          EXPECT_EQ(read(pictures, 0, buffer), std::string(kPage, 'x'));
        }
      });
    EXPECT_EQ(ftruncate(fileno(file), kPage), 0);
    for (std::thread& thread : threads) thread.join();
    EXPECT_NE(refusal(pictures, 1).find("somebody cut it short"), std::string::npos);
  }
  std::fclose(file);
}

}  // namespace
}  // namespace millrace::sources
