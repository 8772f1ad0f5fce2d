// list_image_folder: order, links, odd names, and torchvision's errors. (tests/parity compares whole trees
// with torchvision.)
#include "sources/image_folder.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "../scratch_folder.h"
#include "millrace/error.h"

namespace millrace::sources {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

const Names kJpeg{".jpg", ".jpeg"};

Names tails(const ImageFolderListing& listing) {
  Names names;
  for (size_t i = 0; i < listing.paths.size(); ++i) names.emplace_back(listing.paths.tail(i));
  return names;
}

Error error_of(const std::string& root, const ImageFolderOptions& options) {
  try {
    list_image_folder(root, options);
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error for " << root;
  return {ErrorKind::system, ""};
}

TEST(ImageFolder, ListsInTorchvisionsOrder) {
  const ScratchFolder root;
  for (const char* name : {"dog/2.jpg", "dog/10.JPG", "dog/a/z.jpeg", "dog/a-b/y.jpg", "dog/a/b/x.jpg",
                           "cat/1.jpg", "cat/.jpg", "dog/notes.txt", "dog/jpg", "top.jpg"})
    root.write(name);
  const auto listing = list_image_folder(root.path(), {kJpeg});
  EXPECT_EQ(listing.classes, (Names{"cat", "dog"}));
  EXPECT_EQ(tails(listing), (Names{"cat/.jpg", "cat/1.jpg", "dog/10.JPG", "dog/2.jpg", "dog/a/z.jpeg",
                                   "dog/a-b/y.jpg", "dog/a/b/x.jpg"}));
  EXPECT_EQ(listing.labels, (std::vector<int64_t>{0, 0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(listing.paths.path(0), root.path() + "/cat/.jpg");
}

TEST(ImageFolder, ARootWithASlashGetsNoSecond) {
  const ScratchFolder root;
  root.write("a/1.jpg");
  EXPECT_EQ(list_image_folder(root.path() + "/", {kJpeg}).paths.path(0), root.path() + "/a/1.jpg");
}

TEST(ImageFolder, FollowsLinksAndEndsInCycles) {
  const ScratchFolder root, elsewhere;
  elsewhere.write("1.jpg");
  root.write("a/2.jpg");
  fs::create_directory_symlink(elsewhere.path(), root / "linked");
  fs::create_directory_symlink(root / "nowhere", root / "broken");
  fs::create_symlink(root / "nowhere", root / "a/broken.jpg");
  fs::create_directory_symlink(".", root / "a/again");
  const auto listing = list_image_folder(root.path(), {kJpeg});
  EXPECT_EQ(listing.classes, (Names{"a", "linked"}));
  const Names names = tails(listing);
  EXPECT_EQ(names[0], "a/2.jpg");
  EXPECT_EQ(names[1], "a/broken.jpg");
  EXPECT_EQ(names[2], "a/again/2.jpg");
  EXPECT_EQ(names.back(), "linked/1.jpg");
  EXPECT_EQ(names.size(), 2u * 41 + 1);  // the kernel follows 40 links
}

TEST(ImageFolder, KeepsBytesThatAreNotUtf8) {
  const ScratchFolder root;
  root.write("a/\xFF\x80.jpg");
  root.write("a/\xEE\x80\x80.jpg");
  EXPECT_EQ(tails(list_image_folder(root.path(), {kJpeg})), (Names{"a/\xFF\x80.jpg", "a/\xEE\x80\x80.jpg"}));
}

TEST(ImageFolder, SameForAnyNumberOfThreads) {
  const ScratchFolder root;
  for (int c = 0; c < 20; ++c)
    for (int f = 0; f < 10; ++f)
      root.write("c" + std::to_string(c) + "/" + std::to_string(f * 7 % 10) + ".jpg");
  const auto one = list_image_folder(root.path(), {kJpeg, false, 1});
  for (const int threads : {0, 2, 5, 64}) {
    const auto many = list_image_folder(root.path(), {kJpeg, false, threads});
    EXPECT_EQ(tails(many), tails(one));
    EXPECT_EQ(many.labels, one.labels);
  }
}

TEST(ImageFolder, MissingRoot) {
  const ScratchFolder root;
  const Error e = error_of(root / "no", {kJpeg});
  EXPECT_EQ(e.kind(), ErrorKind::not_found);
  EXPECT_EQ(e.code(), ENOENT);
  EXPECT_EQ(e.path(), root / "no");
  const Error file = error_of(root.write("file"), {kJpeg});
  EXPECT_EQ(file.kind(), ErrorKind::system);
  EXPECT_EQ(file.code(), ENOTDIR);
}

TEST(ImageFolder, NoClassFolder) {
  const ScratchFolder root;
  root.write("1.jpg");
  const Error e = error_of(root.path(), {kJpeg});
  EXPECT_EQ(e.kind(), ErrorKind::not_found);
  EXPECT_EQ(e.what(), "Couldn't find any class folder in " + root.path() + ".");
}

TEST(ImageFolder, EmptyClasses) {
  const ScratchFolder root;
  root.write("full/1.jpg");
  root.write("none/x.txt");
  fs::create_directory(root / "empty");
  const Error e = error_of(root.path(), {kJpeg});
  EXPECT_EQ(e.kind(), ErrorKind::not_found);
  EXPECT_STREQ(e.what(),
               "Found no valid file for the classes empty, none. Supported extensions are: .jpg, .jpeg");
  const auto listing = list_image_folder(root.path(), {kJpeg, true});
  EXPECT_EQ(listing.classes.size(), 3u);
  EXPECT_EQ(listing.labels, (std::vector<int64_t>{1}));
}

TEST(ImageFolder, AClassThatCannotBeLookedAt) {
  const ScratchFolder root;
  root.write("a/1.jpg");
  fs::create_directory_symlink("loop", root / "loop");
  const Error e = error_of(root.path(), {kJpeg});
  EXPECT_EQ(e.kind(), ErrorKind::system);
  EXPECT_EQ(e.code(), ELOOP);
  EXPECT_EQ(e.path(), root / "loop");
}

}  // namespace
}  // namespace millrace::sources
