// Batches and fields: their views, names and memory.
#include "millrace/batch.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "errors_of.h"
#include "millrace/dlpack.h"
#include "millrace/loader.h"
#include "own_samples.h"

namespace millrace {
namespace {

TEST(Fields, AreSeenAsTheirTypeOnly) {
  auto memory = std::make_shared<std::vector<float>>(6, 1.5f);
  const Field field("x", DType::f32, {2, 3}, memory->data(), memory);
  EXPECT_EQ(field.elements(), 6);
  EXPECT_EQ(field.size_bytes(), 24u);
  EXPECT_EQ(field.as<float>()[5], 1.5f);
  EXPECT_EQ(kind_of([&] { field.as<double>(); }, "float32"), ErrorKind::invalid_argument);
}

// No element of an empty field is read, whose shape is that of a single number.
TEST(Fields, WithoutMemoryAreRefused) {
  Field moved("x", DType::f32, {1}, &moved, nullptr);
  const Field kept = std::move(moved);
  EXPECT_EQ(kept.as<float>().size(), 1u);
  for (const Field& field : {Field(), moved, Field("x", DType::f32, {2}, nullptr, nullptr)}) {
    EXPECT_EQ(kind_of([&] { field.as<float>(); }, "as() was asked for a Field without memory"),
              ErrorKind::invalid_argument);
    EXPECT_EQ(kind_of([&] { to_dlpack(field); }, "to_dlpack()"), ErrorKind::invalid_argument);
  }
  EXPECT_EQ(Field().elements(), 0);
  EXPECT_EQ(Field("x", DType::f32, {0, 3}, nullptr, nullptr).as<float>().size(), 0u);
  EXPECT_EQ(kind_of([] { Field("x", DType::u8, {1 << 30, 1 << 30, 1 << 30}, nullptr, nullptr).elements(); }),
            ErrorKind::invalid_argument);
}

TEST(Batches, NameTheFieldsThatThereAre) {
  Loader loader(make_dataset(Numbered{}), {.batch_size = 2});
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(batch.fields().size(), 5u);
  EXPECT_EQ(kind_of([&] { batch["label"]; }, "\"flag\", \"words\", \"x\", \"index\", \"bits\""),
            ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([] { Batch()["x"]; }, "this Batch is empty"), ErrorKind::invalid_argument);
}

TEST(Batches, LieInMemoryOfTheProgramsChoice) {
  auto blocks = std::make_shared<std::atomic<int>>(0);
  const MemorySource memory = [blocks](size_t bytes) {
    void* const data = std::aligned_alloc(64, (bytes + 64) / 64 * 64);
    ++*blocks;
    return std::pair<void*, std::shared_ptr<void>>(data, std::shared_ptr<void>(data, [blocks](void* block) {
                                                     --*blocks;
                                                     std::free(block);
                                                   }));
  };
  Batch kept;
  {
    Loader loader(make_dataset(Numbered{.samples = 40}), {.batch_size = 4, .threads = 2, .memory = memory});
    for (const Batch& batch : loader) kept = batch;
  }
  EXPECT_EQ(kept["index"].as<int64_t>()[3], 39);
  EXPECT_EQ(kept["words"].as<int32_t>()[0], 3700);
  EXPECT_GT(*blocks, 0);
  kept = {};
  EXPECT_EQ(*blocks, 0);
}

TEST(Batches, MemoryThatIsNoneIsRefused) {
  for (void* const wrong : {static_cast<void*>(nullptr), reinterpret_cast<void*>(uintptr_t{8})}) {
    const MemorySource memory = [wrong](size_t) {
      return std::pair<void*, std::shared_ptr<void>>(wrong, nullptr);
    };
    Loader loader(make_dataset(Numbered{}), {.batch_size = 4, .memory = memory});
    Batch batch;
    EXPECT_EQ(kind_of([&] { loader.next(batch); }, "64-byte"), ErrorKind::invalid_argument);
  }
}

TEST(Batches, AreYoursToChangeAndToKeep) {
  Loader loader(make_dataset(Numbered{.samples = 64}), {.batch_size = 4, .threads = 2});
  std::vector<Batch> kept;
  for (const Batch& batch : loader) {
    batch["index"].as<int64_t>()[0] = -1;
    kept.push_back(batch);
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(kept[i]["index"].as<int64_t>()[0], -1);
    EXPECT_EQ(kept[i]["index"].as<int64_t>()[1], static_cast<int64_t>(4 * i + 1));
  }
}

}  // namespace
}  // namespace millrace
