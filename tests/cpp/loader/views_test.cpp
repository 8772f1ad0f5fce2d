// Several views of a picture: each with draws of its own, in a block of its own, decoded once. Forms: one of
// several for all rows of a batch.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "loader/data_loader.h"
#include "loader/worker.h"
#include "millrace/error.h"
#include "sources/sample_files.h"

namespace millrace::loader {
namespace {

using Chain = std::vector<TransformSpec>;

// Twelve pictures of 50 x 40 whose pixels tell where they are.
std::shared_ptr<sources::SampleFiles> gradients() {
  constexpr int32_t kWide = 50, kHigh = 40;
  auto pixels = std::make_shared<std::vector<uint8_t>>();
  for (int y = 0; y < kHigh; ++y)
    for (int x = 0; x < kWide; ++x)
      for (const int value : {x * 5, y * 6, 7}) pixels->push_back(static_cast<uint8_t>(value));
  const sources::Pixels first{pixels->data(), kWide, kHigh, kWide * 3, 3, 1};
  return std::make_shared<sources::PixelFiles>(pixels, first, 12, 0);
}

std::shared_ptr<ImageDataset> images(const std::vector<Chain>& chains) {
  auto made = std::make_shared<ImageDataset>();
  made->files = gradients();
  for (const Chain& chain : chains) made->views.push_back(transforms::ImagePipeline::create(chain));
  return made;
}

const Chain kLarge = {RandomResizedCrop{16, 16}, HorizontalFlip{}, ToTensor{OutputType::u8}};
const Chain kSmall = {RandomResizedCrop{8, 6}, ToTensor{OutputType::u8}};

std::vector<uint8_t> row(const std::shared_ptr<ImageDataset>& dataset, const base::SampleKey& key) {
  Worker worker(dataset, nullptr);
  const transforms::OutputShape shape = worker.prepare(key);
  std::vector<uint8_t> made(static_cast<size_t>(shape.channels * shape.height * shape.width));
  worker.finish({made.data()});
  return made;
}

TEST(Views, TheFirstIsWhatItWouldBeAloneAndAllDiffer) {
  const auto several = images({kLarge, kLarge, kSmall});
  int differ = 0;
  for (int64_t index = 0; index < 12; ++index) {
    const base::SampleKey key{3, 1, index, 0};
    const auto all = row(several, key), alone = row(images({kLarge}), key);
    ASSERT_EQ(all.size(), 2 * 3 * 16 * 16 + 3 * 8 * 6u);
    EXPECT_EQ(std::memcmp(all.data(), alone.data(), alone.size()), 0);
    differ += std::memcmp(all.data(), all.data() + alone.size(), alone.size()) != 0;
  }
  EXPECT_EQ(differ, 12);
}

TEST(Views, ParamsAreThoseOfEach) {
  const auto several = images({kLarge, kSmall});
  Worker worker(several, nullptr);
  worker.prepare({3, 1, 4, 0});
  const auto params = worker.params();
  ASSERT_EQ(params.size(), 2u);
  EXPECT_EQ(params[0].ops.size(), 2u);
  EXPECT_EQ(params[1].ops[0].box, several->views[1]->draw(50, 40, 1, {3, 1, 4, 0}, 1).ops[0].box);
}

class ViewsInBatches : public ::testing::TestWithParam<int> {};

TEST_P(ViewsInBatches, AreBlocksOfTheirOwn) {
  const auto several = images({kLarge, kSmall});
  const auto loader = DataLoader::create(several, {.threads = GetParam(), .on_error = ErrorPolicy::skip});
  loader->start_epoch(3, 1);
  std::vector<int64_t> indices(5);
  std::iota(indices.begin(), indices.end(), 2);
  loader->submit(indices);
  loader->end_epoch();
  Batch batch;
  while (loader->next(batch, 1000) == DataLoader::Status::pending) {
  }
  ASSERT_EQ(batch.rows, 5);
  ASSERT_EQ(batch.parts, (std::vector<transforms::OutputShape>{{3, 16, 16}, {3, 8, 6}}));
  const size_t large = 3 * 16 * 16, small = 3 * 8 * 6;
  ASSERT_GE(batch.images.size_bytes(), static_cast<size_t>(batch.block_rows) * (large + small));
  for (size_t i = 0; i < 5; ++i) {
    const auto expected = row(several, {3, 1, indices[i], 0});
    const uint8_t* data = batch.images.data();
    EXPECT_EQ(std::memcmp(data + i * large, expected.data(), large), 0);
    EXPECT_EQ(std::memcmp(data + static_cast<size_t>(batch.block_rows) * large + i * small,
                          expected.data() + large, small),
              0);
  }
}
INSTANTIATE_TEST_SUITE_P(Loader, ViewsInBatches, ::testing::Values(0, 1, 3));

class FormsOfBatches : public ::testing::TestWithParam<int> {};

TEST_P(FormsOfBatches, AreWhatTheyWouldBeAlone) {
  const auto both = images({kLarge, kSmall});
  both->forms = true;
  const std::shared_ptr<ImageDataset> alone[] = {images({kLarge}), images({kSmall})};
  const auto loader = DataLoader::create(both, {.threads = GetParam(), .slots = 2});
  constexpr int kBatches = 40;
  loader->start_epoch(3, 1);
  EXPECT_THROW(loader->submit({0}, {}, 2), Error);
  const auto form_of = [](int batch) { return static_cast<size_t>(batch * batch / 3 % 2); };
  for (int b = 0; b < kBatches; ++b) loader->submit({b % 12, (b + 5) % 12, (b + 7) % 12}, {}, form_of(b));
  loader->end_epoch();
  std::vector<core::Lease> kept;  // every fifth batch, so that slots come and go
  for (int b = 0; b < kBatches; ++b) {
    Batch batch;
    while (loader->next(batch, 1000) == DataLoader::Status::pending) {
    }
    ASSERT_EQ(batch.rows, 3);
    ASSERT_EQ(batch.shape, *alone[form_of(b)]->pipeline().fixed_shape());
    EXPECT_TRUE(batch.parts.empty());
    const auto bytes = static_cast<size_t>(batch.shape.elements());
    for (size_t i = 0; i < 3; ++i) {
      const RowKey& key = batch.keys[i];
      const auto expected = row(alone[form_of(b)], {3, 1, key.index, key.occurrence});
      ASSERT_EQ(std::memcmp(batch.images.data() + i * bytes, expected.data(), bytes), 0) << b;
    }
    if (b % 5 == 0) kept.push_back(std::move(batch.images));
  }
}
INSTANTIATE_TEST_SUITE_P(Loader, FormsOfBatches, ::testing::Values(0, 1, 3));

TEST(Forms, MayHaveAnySizeButOneType) {
  const auto free = images({kLarge, {Resize{8}, ToTensor{OutputType::u8}}});
  free->forms = true;
  EXPECT_TRUE(free->parts().empty());
  EXPECT_THROW(DataLoader::create(free, {.on_error = ErrorPolicy::leave}), Error);
  const auto types = images({kLarge, {CenterCrop{8, 8}, ToTensor{}}});
  types->forms = true;
  EXPECT_THROW(DataLoader::create(types, {}), Error);
  const auto loader = DataLoader::create(images({kLarge}), {});
  loader->start_epoch(0, 0);
  EXPECT_THROW(loader->submit({0}, {}, 1), Error);
  EXPECT_NO_THROW(loader->submit({0}, {}, 0));
}

TEST(Views, NeedAFixedShapeAndOneType) {
  const auto refused = [](const std::vector<Chain>& chains) {
    EXPECT_THROW(static_cast<void>(images(chains)->parts()), Error);
  };
  refused({});
  refused({kLarge, {Resize{8}, ToTensor{OutputType::u8}}});
  refused({kLarge, {CenterCrop{8, 8}, ToTensor{}}});
  EXPECT_TRUE(images({kLarge})->parts().empty());
}

}  // namespace
}  // namespace millrace::loader
