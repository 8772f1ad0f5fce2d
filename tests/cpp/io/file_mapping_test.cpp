// Which file an address is mapped from, and whether that file is shorter by now.
#include "io/file_mapping.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "../scratch_folder.h"

namespace millrace::io {
namespace {

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

class Mapped {
 public:
  Mapped(int file, size_t bytes, size_t offset = 0)
      : bytes_(bytes), at_(mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, static_cast<off_t>(offset))) {}
  ~Mapped() { munmap(at_, bytes_); }
  const uint8_t* at() const { return static_cast<const uint8_t*>(at_); }

 private:
  size_t bytes_;
  void* at_;
};

TEST(FileMappings, FileOffsetAndEndOfAnAddress) {
  char name[] = "/tmp/millrace name with spaces XXXXXX";
  const int file = mkstemp(name);
  ASSERT_EQ(ftruncate(file, static_cast<off_t>(4 * kPage)), 0);
  const Mapped mapped(file, 2 * kPage, kPage);
  FileMappings mappings;
  const auto found = mappings.at(mapped.at() + kPage + 3);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path, name);
  EXPECT_EQ(found->begin, mapped.at());
  EXPECT_EQ(found->end, mapped.at() + 2 * kPage);
  EXPECT_EQ(found->offset, static_cast<int64_t>(kPage));
  EXPECT_TRUE(found->on_disk);
  unlink(name);
  FileMappings later;
  ASSERT_TRUE(later.at(mapped.at()));
  EXPECT_EQ(later.at(mapped.at())->path, "") << "it has no name any more";
  close(file);
}

TEST(FileMappings, MemoryIsNoFile) {
  const std::vector<uint8_t> heap(1 << 20);
  const int here = 0;
  const int file = memfd_create("numbers", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, static_cast<off_t>(kPage)), 0);
  const Mapped mapped(file, kPage), anonymous(-1, kPage);
  void* const shared = mmap(nullptr, kPage, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  FileMappings mappings;
  EXPECT_FALSE(mappings.at(heap.data()));
  EXPECT_FALSE(mappings.at(&here));
  EXPECT_FALSE(mappings.at(nullptr));
  EXPECT_FALSE(mappings.at(shared));
  ASSERT_TRUE(mappings.at(mapped.at())) << "it can be cut";
  EXPECT_FALSE(mappings.at(mapped.at())->on_disk);
  munmap(shared, kPage);
  close(file);
}

TEST(ShrinkWatch, OnlyTheSameFileCounts) {
  const ScratchFolder folder;
  const std::string path = folder.write("numbers", "0123456789");
  const ShrinkWatch watch(path, 8), nobody("", 8), nowhere(folder / "none", 8);
  EXPECT_FALSE(watch.shrank());
  std::filesystem::resize_file(path, 8);
  EXPECT_FALSE(watch.shrank()) << "what is needed is there";
  std::filesystem::resize_file(path, 7);
  EXPECT_TRUE(watch.shrank());
  std::filesystem::rename(path, folder / "old");
  EXPECT_FALSE(watch.shrank());
  folder.write("numbers", "01");
  EXPECT_FALSE(watch.shrank()) << "another file";
  EXPECT_FALSE(nobody.shrank() || nowhere.shrank());
}

}  // namespace
}  // namespace millrace::io
