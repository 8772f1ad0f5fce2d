// Batches whose size only their rows tell, and rows that do not fit together.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "fake_rows.h"

namespace millrace::loader::testing {
namespace {

using Status = DataLoader::Status;

class Shapes : public ::testing::TestWithParam<int> {
 protected:
  static std::shared_ptr<FakeRows> ragged(
      std::function<transforms::OutputShape(const base::SampleKey&)> shape_of) {
    auto rows = std::make_shared<FakeRows>();
    rows->shape_is_fixed = false;
    rows->shape_of = std::move(shape_of);
    return rows;
  }
  LoaderOptions options(ErrorPolicy policy = ErrorPolicy::raise) const {
    return {GetParam(), 3, policy, false};
  }
};
INSTANTIATE_TEST_SUITE_P(Loader, Shapes, ::testing::Values(0, 1, 2, 5));

std::string message_of(DataLoader& engine) {
  try {
    Batch batch;
    next(engine, batch);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::shape_mismatch);
    return error.what();
  }
  return "no error";
}

TEST_P(Shapes, EveryBatchMayHaveItsOwn) {
  // From below a small field to several times the slot's first size.
  const auto rows = ragged([](const base::SampleKey& key) {
    return transforms::OutputShape{3, static_cast<int32_t>(1 + key.index / 4 * 50), 40};
  });
  const auto engine = loader(rows, options());
  const auto batches = epoch(*engine, range(0, 100), 4);
  ASSERT_EQ(batches.size(), 25u);
  for (size_t b = 0; b < batches.size(); ++b) {
    EXPECT_EQ(batches[b].shape, (transforms::OutputShape{3, static_cast<int32_t>(1 + b * 50), 40}));
    for (int64_t row = 0; row < 4; ++row)
      ASSERT_TRUE(holds(batches[b], row, {1, 0, static_cast<int64_t>(b) * 4 + row, 0}));
  }
}

TEST_P(Shapes, DifferentRowsGiveTorchsSentenceWhateverThreadCameFirst) {
  for (int slow = 0; slow < 4; ++slow) {
    const auto rows = ragged([slow](const base::SampleKey& key) {
      if (key.index == slow) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      return key.index == 0   ? transforms::OutputShape{3, 4, 5}
             : key.index == 3 ? transforms::OutputShape{3, 6, 7}
                              : transforms::OutputShape{3, 4, 5};
    });
    const auto engine = loader(rows, options());
    engine->start_epoch(1, 0);
    engine->submit(range(0, 6));
    engine->submit(range(4, 8));
    EXPECT_EQ(
        message_of(*engine),
        "stack expects each tensor to be equal size, but got [3, 4, 5] at entry 0 and [3, 6, 7] at entry 3");
    Batch batch;
    EXPECT_EQ(next(*engine, batch), Status::ready) << "the next batch can still be had";
    EXPECT_EQ(batch.id, 1);
  }
}

TEST_P(Shapes, AnOddFirstRowIsComparedWithTheSecond) {
  const auto rows = ragged([](const base::SampleKey& key) {
    if (key.index == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    return key.index == 0 ? transforms::OutputShape{3, 4, 5} : transforms::OutputShape{3, 6, 7};
  });
  for (const ErrorPolicy policy : {ErrorPolicy::raise, ErrorPolicy::replace, ErrorPolicy::skip}) {
    const auto engine = loader(rows, options(policy));
    engine->start_epoch(1, 0);
    engine->submit(range(0, 6));
    engine->end_epoch();
    EXPECT_EQ(
        message_of(*engine),
        "stack expects each tensor to be equal size, but got [3, 4, 5] at entry 0 and [3, 6, 7] at entry 1");
  }
}

TEST_P(Shapes, AnUnreadableRowComesBeforeTheMismatch) {
  const auto rows = ragged(
      [](const base::SampleKey& key) { return transforms::OutputShape{3, key.index == 2 ? 9 : 4, 5}; });
  rows->unreadable_at_finish = {2, 4};  // 2 is also the odd one: its damage must show on every schedule
  const auto engine = loader(rows, options());
  engine->start_epoch(1, 0);
  engine->submit(range(0, 6));
  Batch batch;
  try {
    next(*engine, batch);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.path(), FakeRows::path(2));
  }
}

// A row that decides the batch's shape and then turns out to be damaged must leave no trace of its shape.
TEST_P(Shapes, TheShapeOfASampleThatWasLeftOutDoesNotCount) {
  for (const ErrorPolicy policy : {ErrorPolicy::replace, ErrorPolicy::skip}) {
    const auto rows = ragged([](const base::SampleKey& key) {
      if (key.index != 5) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      return key.index == 5 ? transforms::OutputShape{3, 99, 99} : transforms::OutputShape{3, 100, 101};
    });
    rows->unreadable_at_finish = {5};
    const auto engine = loader(rows, options(policy));
    const auto batches = epoch(*engine, {5, 1, 2, 3, 4, 10}, 3);
    ASSERT_EQ(batches.size(), 2u);
    const int64_t filler = policy == ErrorPolicy::replace ? 6 : 10;
    EXPECT_TRUE(holds(batches[0], 0, {1, 0, filler, 0}));
    EXPECT_TRUE(holds(batches[0], 1, {1, 0, 1, 0}));
    EXPECT_TRUE(holds(batches[0], 2, {1, 0, 2, 0}));
    EXPECT_EQ(batches[1].rows, policy == ErrorPolicy::replace ? 3 : 2);
  }
}

TEST_P(Shapes, ARowTooLargeForMemoryEndsItsBatchAndIsNotReplaced) {
  const transforms::OutputShape usual{3, 4, 5}, huge{1 << 12, 1 << 20, 1 << 20};
  const auto rows = ragged([=](const base::SampleKey& key) { return key.index == 1 ? huge : usual; });
  const auto engine = loader(rows, options(ErrorPolicy::replace));
  engine->start_epoch(1, 0);
  engine->submit({1, 1});
  engine->submit({2});
  Batch batch;
  EXPECT_THROW(next(*engine, batch), Error);
  EXPECT_TRUE(engine->stats().errors.empty());
  EXPECT_EQ(next(*engine, batch), Status::ready);
}

}  // namespace
}  // namespace millrace::loader::testing
