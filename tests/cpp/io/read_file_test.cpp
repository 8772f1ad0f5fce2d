// read_file: sizes around its buffer's edges, files that report no size, and what cannot be read.
#include "io/read_file.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <numeric>
#include <vector>

#include "../scratch_folder.h"
#include "millrace/error.h"

namespace millrace::io {
namespace {

std::string text(const FileBuffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.bytes().data()), buffer.bytes().size()};
}

std::string pattern(size_t bytes) {
  std::string content(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) content[i] = static_cast<char>(i * 131 + i / 251);
  return content;
}

TEST(ReadFile, EverySizeAroundTheGrain) {
  const ScratchFolder folder;
  FileBuffer buffer;
  for (const int bytes : {0, 1, 65534, 65535, 65536, 65537, 300'000, 7}) {
    const std::string content = pattern(static_cast<size_t>(bytes));
    read_file(folder.write("file", content), buffer);
    EXPECT_EQ(text(buffer), content) << bytes;
  }
}

TEST(ReadFile, KeepsItsMemory) {
  const ScratchFolder folder;
  const std::string large = folder.write("large", pattern(200'000)), small = folder.write("small", "abc");
  FileBuffer buffer;
  read_file(large, buffer);
  const uint8_t* before = buffer.bytes().data();
  read_file(small, buffer);
  EXPECT_EQ(buffer.bytes().data(), before);
  EXPECT_EQ(text(buffer), "abc");
}

TEST(ReadFile, FilesWithoutASize) {
  FileBuffer buffer;
  read_file("/proc/self/status", buffer);
  EXPECT_EQ(text(buffer).rfind("Name:", 0), 0u);
}

TEST(ReadFile, ErrorsNameThePath) {
  const ScratchFolder folder;
  FileBuffer buffer;
  try {
    read_file(folder / "missing.jpg", buffer);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::not_found);
    EXPECT_EQ(e.code(), ENOENT);
    EXPECT_EQ(e.path(), folder / "missing.jpg");
    EXPECT_NE(std::string(e.what()).find(e.path()), std::string::npos);
  }
  try {
    read_file(folder.path(), buffer);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::system);
    EXPECT_EQ(e.code(), EISDIR);
    EXPECT_EQ(e.path(), folder.path());
  }
}

TEST(ReadFile, ClosesWhatItOpens) {
  const ScratchFolder folder;
  const std::string path = folder.write("file", "x");
  FileBuffer buffer;
  for (int i = 0; i < 5000; ++i) read_file(path, buffer);  // the usual limit is 1024 descriptors
  for (int i = 0; i < 5000; ++i) EXPECT_THROW(read_file(folder.path(), buffer), Error);
}

}  // namespace
}  // namespace millrace::io
