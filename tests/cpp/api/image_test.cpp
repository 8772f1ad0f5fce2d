// Picture datasets: what they know, what their batches look like, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include "../scratch_folder.h"
#include "../test_data.h"
#include "errors_of.h"
#include "millrace/image_folder.h"
#include "millrace/loader.h"

namespace millrace {
namespace {

const Transforms kChain{Resize{20, 24}, ToTensor{}};

// root/a, root/b with two copies each of a picture of the test data.
void make_root(const ScratchFolder& folder) {
  const std::filesystem::path picture = test_data("jpeg/422_q90.jpg");
  ASSERT_TRUE(std::filesystem::exists(picture));
  for (const char* name : {"root/b/2.jpg", "root/a/1.JPG", "root/a/0.jpg", "root/b/1.jpg"}) {
    const std::string to = folder.write(name);
    std::filesystem::copy_file(picture, to, std::filesystem::copy_options::overwrite_existing);
  }
  folder.write("root/a/note.txt", "no picture");
}

class Images : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, Images, ::testing::Values(0, 1, 4));

TEST_P(Images, AFolderKnowsItsClassesAndGivesPictures) {
  const ScratchFolder folder;
  make_root(folder);
  const ImageFolder photos = image_folder(folder / "root", kChain);
  EXPECT_EQ(photos.size(), 4);
  EXPECT_EQ(photos.classes(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(photos.labels(), (std::vector<int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(photos.path(1), folder / "root/a/1.JPG");
  EXPECT_EQ(kind_of([&] { photos.path(4); }, "index 4"), ErrorKind::out_of_range);
  EXPECT_EQ(photos.fields()[0], (FieldSpec{"image", DType::f32, {3, 20, 24}, false}));
  EXPECT_EQ(photos.fields()[1], (FieldSpec{"label", DType::i64, {}, false}));

  Loader loader(photos, {.batch_size = 3, .threads = GetParam()});
  std::vector<int64_t> labels;
  for (const Batch& batch : loader) {
    EXPECT_EQ(batch["image"].shape(), (std::vector<int64_t>{batch.size(), 3, 20, 24}));
    const auto pixels = batch["image"].as<float>();
    EXPECT_TRUE(std::all_of(pixels.begin(), pixels.end(), [](float x) { return x >= 0 && x <= 1; }));
    EXPECT_NE(pixels.front(), pixels.back());
    for (const int64_t label : batch["label"].as<int64_t>()) labels.push_back(label);
  }
  EXPECT_EQ(labels, photos.labels());
  EXPECT_GT(loader.stats().decode_seconds, 0);
}

TEST_P(Images, RaggedOnesKeepTheirSizes) {
  const ScratchFolder folder;
  std::vector<std::string> paths;
  for (const char* name : {"jpeg/422_q90.jpg", "jpeg/grey_q85.jpg", "jpeg/420_33x15.jpg"})
    paths.push_back(test_data(name));
  const Transforms chain{ToTensor{OutputType::u8}};
  const ImageFolder photos = image_files(paths, {5, 6, 7}, chain, {.ragged = true});
  EXPECT_EQ(photos.fields()[0], (FieldSpec{"image", DType::u8, {}, true}));
  EXPECT_EQ(photos.fields()[1], (FieldSpec{"image_size", DType::i64, {3}, false}));

  Loader loader(photos, {.batch_size = 3, .shuffle = true, .threads = GetParam(), .seed = 4});
  for (int epoch = 0; epoch < 3; ++epoch)
    for (const Batch& batch : loader) {
      const Field &image = batch["image"], &size = batch["image_size"];
      ASSERT_TRUE(image.ragged());
      ASSERT_EQ(size.shape(), (std::vector<int64_t>{3, 3}));
      for (size_t row = 0; row < 3; ++row) {
        const auto index = static_cast<size_t>(batch.indices()[row]);
        EXPECT_EQ(batch["label"].as<int64_t>()[row], static_cast<int64_t>(5 + index));
        Loader alone(image_files({paths[index]}, {}, chain), {.batch_size = 1});
        const Batch single = *alone.begin();
        const auto expected = single["image"].as<uint8_t>();
        const auto sides = size.as<int64_t>().subspan(row * 3, 3);
        EXPECT_TRUE(std::ranges::equal(sides, std::span(single["image"].shape()).subspan(1)));
        const auto begin = static_cast<size_t>(image.offsets()[row]),
                   end = static_cast<size_t>(image.offsets()[row + 1]);
        EXPECT_TRUE(std::ranges::equal(image.as<uint8_t>().subspan(begin, end - begin), expected));
      }
    }
}

TEST_P(Images, ListsOfFilesHaveTheirLabelsOrNone) {
  const ScratchFolder folder;
  make_root(folder);
  const std::vector<std::string> paths{folder / "root/a/0.jpg", folder / "root/b/1.jpg"};
  Batch batch;
  ASSERT_TRUE(
      Loader(image_files(paths, {7, -1}, kChain), {.batch_size = 2, .threads = GetParam()}).next(batch));
  EXPECT_EQ(batch["label"].as<int64_t>()[0], 7);
  EXPECT_EQ(batch["label"].as<int64_t>()[1], -1);
  ASSERT_TRUE(Loader(image_files(paths, {}, kChain), {.batch_size = 2, .threads = GetParam()}).next(batch));
  EXPECT_EQ(batch["label"].as<int64_t>()[1], 0);
  EXPECT_EQ(kind_of([&] { image_files(paths, {1}, kChain); }, "1 labels"), ErrorKind::invalid_argument);
}

TEST_P(Images, FilesThatAreNoPicturesAreTheBatchsError) {
  const ScratchFolder folder;
  make_root(folder);
  const std::string bad = folder.write("root/a/0.jpg", "this is no picture at all");
  const ImageFolder photos = image_folder(folder / "root", kChain);
  Loader raises(photos, {.batch_size = 2, .threads = GetParam()});
  Batch batch;
  try {
    raises.next(batch);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unavailable);  // of no format that is known here
    EXPECT_EQ(error.path(), bad);
  }
  EXPECT_TRUE(raises.next(batch));
  folder.write("root/a/0.jpg", "\xff\xd8\xff\xe0 and then no JPEG");
  EXPECT_EQ(kind_of([&] { Loader(photos, {.threads = GetParam()}).next(batch); }, bad),
            ErrorKind::corrupt_data);
  Loader skips(photos, {.batch_size = 2, .threads = GetParam(), .on_error = OnError::skip});
  ASSERT_TRUE(skips.next(batch));
  EXPECT_EQ(batch.indices(), (std::vector<int64_t>{3, 1}));
  ASSERT_TRUE(skips.next(batch));
  EXPECT_EQ(batch.indices(), (std::vector<int64_t>{2}));
  EXPECT_EQ(batch["image"].shape()[0], 1);
  EXPECT_FALSE(skips.next(batch));
  const LoaderStats stats = skips.stats();
  ASSERT_EQ(stats.errors.size(), 1u);
  EXPECT_EQ(stats.errors[0].path, bad);
  EXPECT_EQ(stats.left_out, 1);
}

TEST(ImageErrors, OfFoldersAndChains) {
  const ScratchFolder folder;
  EXPECT_EQ(kind_of([&] { image_folder(folder / "nowhere", kChain); }), ErrorKind::not_found);
  std::filesystem::create_directories(folder / "empty");
  EXPECT_EQ(kind_of([&] { image_folder(folder / "empty", kChain); }), ErrorKind::not_found);
  std::filesystem::create_directories(folder / "hollow/a");
  EXPECT_EQ(kind_of([&] { image_folder(folder / "hollow", kChain); }), ErrorKind::not_found);
  EXPECT_EQ(image_folder(folder / "hollow", kChain, {.allow_empty = true}).size(), 0);
  EXPECT_EQ(kind_of([] { Transforms{Resize{20, 24}}; }, "ToTensor"), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([] { Transforms{Resize{-1, 0}, ToTensor{}}; }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([] { ImageFolder().classes(); }, "empty"), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([] { ImageFolder().size(); }, "empty"), ErrorKind::invalid_argument);
}

TEST(Chains, SayWhatTheyGive) {
  EXPECT_EQ(kChain.dtype(), DType::f32);
  EXPECT_EQ(kChain.shape(), (std::vector<int64_t>{3, 20, 24}));
  const Transforms varies{Resize{20}, ToTensor{OutputType::u8}};
  EXPECT_EQ(varies.dtype(), DType::u8);
  EXPECT_TRUE(varies.shape().empty());
  Transforms moved = varies;
  const Transforms kept = std::move(moved);
  EXPECT_EQ(kind_of([&] { static_cast<void>(moved.dtype()); }, "moved from"), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([&] { moved.shape(); }, "moved from"), ErrorKind::invalid_argument);
}

TEST(Chains, SidesAsLargeAsTheirTypeAreErrors) {
  const int32_t most = std::numeric_limits<int32_t>::max();
  DrawnResize drawn{.kind = DrawnResize::Kind::shortest, .sizes = {most}};
  const std::vector<TransformSpec> firsts{
      RandomResizedCrop{most, most},
      Resize{most, most},
      Resize{most},
      Resize{0, 0, most},
      CenterCrop{most, most},
      RandomCrop{.height = most, .width = most},
      RandomCrop{.height = most, .width = most, .pad_if_needed = true},
      RandomCrop{.height = 8, .width = 8, .padding = {most, most, most, most}},
      Frame{.padding = {most, most, most, most}},
      Frame{.kind = Frame::Kind::center, .height = most, .width = most},
      Frame{.kind = Frame::Kind::anywhere, .height = most, .width = most},
      drawn};
  for (size_t i = 0; i < firsts.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_THROW(
        {
          const Transforms chain(std::vector<TransformSpec>{firsts[i], HorizontalFlip{1}, ToTensor{}});
          Loader loader(image_files({test_data("jpeg/422_q90.jpg")}, {}, chain), {});
          Batch batch;
          loader.next(batch);
        },
        Error);
  }
}

TEST(Chains, ExifIsLookedAtWhenItIsAskedFor) {
  const ScratchFolder folder;
  make_root(folder);
  for (const bool exif : {false, true}) {
    Loader loader(image_folder(folder / "root", kChain, {.exif = exif}), {.batch_size = 4});
    Batch batch;
    ASSERT_TRUE(loader.next(batch));
    EXPECT_EQ(batch["image"].shape(), (std::vector<int64_t>{4, 3, 20, 24}));
  }
}

}  // namespace
}  // namespace millrace
