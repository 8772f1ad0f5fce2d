// Rows that are mixed with each other: what torch's operations on finished rows give, by any number of
// threads.
#include "loader/mixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "loader/data_loader.h"
#include "millrace/error.h"
#include "sources/sample_files.h"

namespace millrace::loader {
namespace {

using Status = DataLoader::Status;
constexpr int32_t kHeight = 11, kWidth = 37, kPlane = kHeight * kWidth, kRow = 3 * kPlane;
constexpr int64_t kSamples = 40;

// Pictures of noise, each its own.
std::shared_ptr<sources::SampleFiles> noise() {
  auto pixels = std::make_shared<std::vector<uint8_t>>();
  std::mt19937 random(3);
  constexpr int32_t kSide = 40;
  for (int64_t i = 0; i < kSamples * kSide * kSide * 3; ++i)
    pixels->push_back(static_cast<uint8_t>(random()));
  const sources::Pixels first{pixels->data(), kSide, kSide, kSide * 3, 3, 1};
  return std::make_shared<sources::PixelFiles>(pixels, first, kSamples, kSide * kSide * 3);
}

enum class Numbers { plain, erased, noisy };

std::vector<TransformSpec> chain(Numbers numbers, OutputType type = OutputType::f32) {
  std::vector<TransformSpec> steps{RandomResizedCrop{kHeight, kWidth}, HorizontalFlip{}, ToTensor{type},
                                   Normalize{{0.4, 0.5, 0.6}, {0.2, 0.3, 0.25}}};
  if (numbers == Numbers::erased) steps.emplace_back(RandomErasing{.p = 0.5, .value = {}});
  if (numbers == Numbers::noisy) steps.emplace_back(GaussianNoise{});
  return steps;
}

std::unique_ptr<DataLoader> loader(const std::vector<TransformSpec>& steps, LoaderOptions options) {
  auto images = std::make_shared<ImageDataset>();
  images->files = noise();
  images->views.push_back(transforms::ImagePipeline::create(steps));
  return DataLoader::create(images, options);
}

Batch take(DataLoader& engine) {
  Batch batch;
  Status status = Status::pending;
  while (status == Status::pending) status = engine.next(batch, 1000);
  EXPECT_EQ(status, Status::ready);
  return batch;
}

std::vector<float> values(const Batch& batch) {
  std::vector<float> result(static_cast<size_t>(batch.rows) * kRow);
  std::memcpy(result.data(), batch.images.data(), result.size() * sizeof(float));
  return result;
}

std::vector<float> mixed(const std::vector<float>& rows, const BatchMix& mix) {
  std::vector<float> result = rows;
  for (size_t row = 0; row < mix.partners.size(); ++row)
    for (int i = 0; i < kRow; ++i) {
      const int y = i % kPlane / kWidth, x = i % kWidth;
      float& out = result[row * kRow + static_cast<size_t>(i)];
      const float other = rows[static_cast<size_t>(mix.partners[row]) * kRow + static_cast<size_t>(i)];
      if (!mix.mix.box) {
        const float first = out * mix.mix.own, second = other * mix.mix.other;
        out = first + second;
      } else if (const base::Rect& box = *mix.mix.box;
                 x >= box.left && x < box.right() && y >= box.top && y < box.bottom()) {
        out = other;
      }
    }
  return result;
}

BatchMix random_mix(std::mt19937& random, int64_t rows) {
  BatchMix result;
  result.partners.resize(static_cast<size_t>(rows));
  std::iota(result.partners.begin(), result.partners.end(), 0);
  std::shuffle(result.partners.begin(), result.partners.end(), random);
  const auto below = [&](int32_t n) { return static_cast<int32_t>(random() % static_cast<uint32_t>(n)); };
  if (random() % 2) {
    result.mix.own = static_cast<float>(below(1000)) / 999;
    result.mix.other = 1 - result.mix.own;
  } else {
    const int32_t left = below(kWidth + 1), top = below(kHeight + 1);
    result.mix.box = base::Rect{left, top, below(kWidth - left + 1), below(kHeight - top + 1)};
  }
  return result;
}

TEST(Mixture, GivesWhatTorchGivesOfFinishedRows) {
  for (const Numbers numbers : {Numbers::plain, Numbers::erased, Numbers::noisy})
    for (const int threads : {0, 1, 4}) {
      const auto plain = loader(chain(numbers), {.threads = 0}), mixing = loader(chain(numbers), {threads});
      std::mt19937 random(7);
      std::vector<BatchMix> mixes;
      for (const auto& engine : {plain.get(), mixing.get()}) engine->start_epoch(5, 2);
      for (int64_t first = 0, rows; first < kSamples; first += rows) {
        rows = std::min<int64_t>(1 + static_cast<int64_t>(random() % 9), kSamples - first);
        std::vector<int64_t> indices(static_cast<size_t>(rows));
        std::iota(indices.begin(), indices.end(), first);
        plain->submit(indices);
        mixes.push_back(random() % 4 ? random_mix(random, rows) : BatchMix{});
        mixing->submit(indices, mixes.back());
      }
      for (const auto& engine : {plain.get(), mixing.get()}) engine->end_epoch();
      for (const BatchMix& mix : mixes) {
        const Batch raw = take(*plain), got = take(*mixing);
        const std::vector<float> expected = mixed(values(raw), mix), found = values(got);
        ASSERT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0)
            << threads << " threads, numbers " << static_cast<int>(numbers);
        ASSERT_EQ(got.labels, raw.labels);
      }
    }
}

TEST(Mixture, AnErrorOfARowIsTheBatchs) {
  const auto engine = loader(chain(Numbers::plain), {.threads = 3});
  engine->start_epoch(1, 0);
  engine->submit({1, kSamples, 2}, {{0.5f, 0.5f}, {2, 0, 1}});
  engine->submit({3, 4}, {{0.5f, 0.5f}, {1, 0}});
  engine->end_epoch();
  Batch batch;
  EXPECT_THROW(while (engine->next(batch, 1000) == Status::pending){}, Error);
  EXPECT_EQ(take(*engine).rows, 2);
}

TEST(Mixture, EarlyEndsLeaveNothingBehind) {
  std::mt19937 random(9);
  for (int round = 0; round < 60; ++round) {
    const auto engine = loader(chain(round % 2 == 0 ? Numbers::erased : Numbers::plain),
                               {.threads = 1 + round % 4, .slots = 2});
    for (uint64_t epoch = 0; epoch < 2; ++epoch) {
      engine->start_epoch(1, epoch);
      for (int batch = 0; batch < 6; ++batch) engine->submit({1, 2, 3, 4, 5}, random_mix(random, 5));
      for (uint32_t n = random() % 4; n > 0; --n) take(*engine);
    }
  }
}

TEST(Mixture, RefusesWhatItCannotDo) {
  const BatchMix two{{0.5f, 0.5f}, {1, 0}};
  const auto engine = loader(chain(Numbers::plain), {.threads = 1});
  engine->start_epoch(1, 0);
  for (const std::vector<int32_t>& partners : std::vector<std::vector<int32_t>>{{0}, {0, 0}, {0, 2}, {-1, 0}})
    EXPECT_THROW(engine->submit({1, 2}, {{0.5f, 0.5f}, partners}), Error);
  for (const base::Rect& box : {base::Rect{-1, 0, 2, 2}, base::Rect{0, 0, kWidth + 1, 1},
                                base::Rect{0, kHeight, 1, 1}, base::Rect{0, 0, 1, -1}})
    EXPECT_THROW(engine->submit({1, 2}, {{0, 1, box}, {1, 0}}), Error);
  engine->submit({1, 2}, two);
  for (const auto& other :
       {loader(chain(Numbers::plain, OutputType::f16), {1}),
        loader({RandomResizedCrop{8, 8}, ToTensor{}}, {.threads = 1, .on_error = ErrorPolicy::replace}),
        loader({HorizontalFlip{}, ToTensor{}}, {1})}) {
    other->start_epoch(1, 0);
    EXPECT_THROW(other->submit({1, 2}, two), Error);
  }
}

}  // namespace
}  // namespace millrace::loader
