// A file in memory: its bytes, what becomes of it when it is cut short or replaced, and what cannot be
// mapped.
#include "io/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "../scratch_folder.h"
#include "millrace/error.h"

namespace millrace::io {
namespace {

TEST(MappedFile, HoldsTheBytesAndKnowsWhenTheFileIsCutShort) {
  const ScratchFolder folder;
  const MappedFile file(folder.write("a.bin", std::string(5000, 'x')));
  ASSERT_EQ(file.bytes().size(), 5000u);
  EXPECT_EQ(file.bytes()[4999], 'x');
  for (const auto access :
       {MappedFile::Access::random, MappedFile::Access::sequential, MappedFile::Access::normal})
    file.advise(access);
  EXPECT_FALSE(file.shrank());
  ASSERT_EQ(truncate(file.path().c_str(), 100), 0);
  EXPECT_TRUE(file.shrank());
  EXPECT_EQ(file.bytes()[99], 'x');
}

TEST(MappedFile, AFileThatTookItsPlaceIsAnotherFile) {
  const ScratchFolder folder;
  const MappedFile file(folder.write("a.bin", std::string(5000, 'x')));
  std::filesystem::rename(folder.write("b.bin", "short"), file.path());
  EXPECT_FALSE(file.shrank());
  EXPECT_EQ(file.bytes()[4999], 'x');
  std::filesystem::remove(file.path());
  EXPECT_FALSE(file.shrank());
}

TEST(MappedFile, EmptyMissingAndFolders) {
  const ScratchFolder folder;
  const MappedFile empty(folder.write("empty"));
  EXPECT_TRUE(empty.bytes().empty());
  empty.advise(MappedFile::Access::random);
  try {
    const MappedFile file(folder / "none");
    ADD_FAILURE() << "a file that is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::not_found);
  }
  try {
    const MappedFile file(folder.path());
    ADD_FAILURE() << "a folder";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::system);
  }
}

}  // namespace
}  // namespace millrace::io
