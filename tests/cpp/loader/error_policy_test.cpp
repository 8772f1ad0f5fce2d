// raise, replace and skip, also against a sequential model of what they mean.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "fake_rows.h"

namespace millrace::loader::testing {
namespace {

using Status = DataLoader::Status;

class Policies : public ::testing::TestWithParam<int> {
 protected:
  LoaderOptions options(ErrorPolicy policy, bool drop_last = false) const {
    return {GetParam(), 3, policy, drop_last};
  }
};
INSTANTIATE_TEST_SUITE_P(Loader, Policies, ::testing::Values(0, 1, 2, 5));

std::vector<int64_t> indices_of(const LoaderStats& stats) {
  std::vector<int64_t> result;
  for (const SampleError& error : stats.errors) {
    EXPECT_EQ(error.path, FakeRows::path(error.index));
    EXPECT_EQ(error.offset, error.index * 10);
    EXPECT_NE(error.reason.find(error.path), std::string::npos);
    result.push_back(error.index);
  }
  return result;
}

TEST_P(Policies, RaiseThrowsTheFirstErrorByRowAndGoesOn) {
  auto rows = std::make_shared<FakeRows>();
  rows->unreadable_at_finish = {2, 10};
  rows->unreadable_at_prepare = {3};
  rows->prepare = [](const base::SampleKey& key) {
    if (key.index == 2) std::this_thread::sleep_for(std::chrono::milliseconds(3));
  };
  const auto engine = loader(rows, options(ErrorPolicy::raise));
  engine->start_epoch(1, 0);
  for (int64_t i = 0; i < 3; ++i) engine->submit(range(i * 4, i * 4 + 4));
  engine->end_epoch();
  Batch batch;
  try {
    next(*engine, batch);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt_data);
    EXPECT_EQ(error.path(), FakeRows::path(2));
    EXPECT_EQ(error.offset(), 20);
  }
  ASSERT_EQ(next(*engine, batch), Status::ready);
  EXPECT_EQ(batch.id, 1);
  EXPECT_TRUE(holds(batch, 3, {1, 0, 7, 0}));
  EXPECT_THROW(next(*engine, batch), Error);
  EXPECT_EQ(next(*engine, batch), Status::end);
  EXPECT_TRUE(engine->stats().errors.empty());
  EXPECT_EQ(engine->stats().overflow_slots, 0);
}

TEST_P(Policies, AWrongIndexIsTheCallersErrorUnderEveryPolicy) {
  for (const ErrorPolicy policy : {ErrorPolicy::raise, ErrorPolicy::replace, ErrorPolicy::skip}) {
    auto rows = std::make_shared<FakeRows>();
    const auto engine = loader(rows, options(policy));
    engine->start_epoch(1, 0);
    engine->submit({1, -101, 2});
    engine->submit({100});
    engine->submit({-100});
    engine->end_epoch();
    Batch batch;
    for (const std::string wrong : {"-101", "100"}) {
      try {
        next(*engine, batch);
        FAIL();
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::out_of_range);
        EXPECT_EQ(error.what(), "index " + wrong + " is out of range for a dataset of 100 samples");
      }
    }
    EXPECT_EQ(next(*engine, batch), Status::ready);
    EXPECT_TRUE(holds(batch, 0, {1, 0, 0, 0}));
  }
}

TEST_P(Policies, WhatIsNoFaultOfASampleIsNotReplaced) {
  struct Stranger {};
  for (const ErrorPolicy policy : {ErrorPolicy::replace, ErrorPolicy::skip}) {
    auto rows = std::make_shared<FakeRows>();
    rows->prepare = [](const base::SampleKey& key) {
      if (key.index == 0) throw Stranger{};
      if (key.index == 1) throw Error(ErrorKind::system, "too many open files", "fake", -1, EMFILE);
      if (key.index == 2) throw Error(ErrorKind::invalid_argument, "a transform cannot do this");
    };
    const auto engine = loader(rows, options(policy));
    engine->start_epoch(1, 0);
    for (int64_t i = 0; i < 4; ++i) engine->submit({i, 10});
    engine->end_epoch();
    Batch batch;
    EXPECT_THROW(next(*engine, batch), Stranger);
    EXPECT_THROW(next(*engine, batch), Error);
    EXPECT_THROW(next(*engine, batch), Error);
    EXPECT_EQ(next(*engine, batch), Status::ready);
    EXPECT_TRUE(engine->stats().errors.empty());
  }
}

TEST_P(Policies, ReplaceWrapsAroundTheEnd) {
  auto rows = std::make_shared<FakeRows>();
  rows->size = 10;
  rows->unreadable_at_finish = {8, 9};
  rows->unreadable_at_prepare = {0};
  const auto engine = loader(rows, options(ErrorPolicy::replace));
  const auto batches = epoch(*engine, {1, 8, 8, 1}, 4);
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_TRUE(holds(batches[0], 0, {1, 0, 1, 0}));
  EXPECT_TRUE(holds(batches[0], 1, {1, 0, 1, 0}));
  EXPECT_TRUE(holds(batches[0], 2, {1, 0, 1, 0}));
  EXPECT_TRUE(holds(batches[0], 3, {1, 0, 1, 1}));
  EXPECT_EQ(indices_of(engine->stats()), (std::vector<int64_t>{8, 9, 0, 8, 9, 0}));
}

TEST_P(Policies, ReplaceWithNothingReadableSaysSoInsteadOfLooping) {
  auto rows = std::make_shared<FakeRows>();
  rows->size = 50;
  for (int64_t i = 0; i < 50; ++i) rows->unreadable_at_prepare.insert(i);
  const auto engine = loader(rows, options(ErrorPolicy::replace));
  for (uint64_t number = 0; number < 2; ++number) {
    engine->start_epoch(1, number);
    engine->submit({7, 8});
    engine->submit({9});
    engine->end_epoch();
    Batch batch;
    for (const int64_t first : {7, 9}) {
      try {
        next(*engine, batch);
        FAIL();
      } catch (const Error& error) {
        EXPECT_EQ(error.what(),
                  "none of the 50 samples can be read, so nothing can take the place of index " +
                      std::to_string(first) + ": " + FakeRows::path(first) + ": no header");
        EXPECT_EQ(error.path(), FakeRows::path(first));
      }
    }
    EXPECT_EQ(next(*engine, batch), Status::end);
  }
}

TEST_P(Policies, SkipNeedsTheWholeEpochFirst) {
  const auto engine = loader(std::make_shared<FakeRows>(), options(ErrorPolicy::skip));
  engine->start_epoch(1, 0);
  engine->submit({1});
  Batch batch;
  EXPECT_THROW(engine->next(batch, 10), Error);
  engine->end_epoch();
  EXPECT_EQ(next(*engine, batch), Status::ready);
}

TEST_P(Policies, SkipWithNothingReadableIsAnErrorNotAnEmptyEpoch) {
  auto rows = std::make_shared<FakeRows>();
  rows->size = 30;
  for (int64_t i = 0; i < 30; ++i) rows->unreadable_at_finish.insert(i);
  const auto engine = loader(rows, options(ErrorPolicy::skip, true));
  engine->start_epoch(1, 0);
  for (int64_t i = 0; i < 10; ++i) engine->submit(range(i * 3, i * 3 + 3));
  engine->end_epoch();
  Batch batch;
  EXPECT_THROW(next(*engine, batch), Error);
  EXPECT_EQ(next(*engine, batch), Status::end);
  EXPECT_EQ(engine->stats().errors.size(), 30u);
}

TEST_P(Policies, TheListOfErrorsEndsButTheCountGoesOn) {
  auto rows = std::make_shared<FakeRows>();
  rows->size = static_cast<int64_t>(kMostErrors) + 101;
  for (int64_t i = 1; i < rows->size; ++i) rows->unreadable_at_finish.insert(i);
  const auto engine = loader(rows, options(ErrorPolicy::skip));
  engine->start_epoch(1, 0);
  engine->submit(range(0, rows->size));
  engine->end_epoch();
  Batch batch;
  ASSERT_EQ(next(*engine, batch), Status::ready);
  EXPECT_EQ(batch.rows, 1);
  EXPECT_EQ(engine->stats().errors.size(), kMostErrors);
  EXPECT_EQ(engine->stats().left_out, rows->size - 1);
}

TEST_P(Policies, LongRepairsCanBeInterrupted) {
  for (const ErrorPolicy policy : {ErrorPolicy::replace, ErrorPolicy::skip}) {
    auto rows = std::make_shared<FakeRows>();
    rows->size = 200;
    rows->prepare = [](const base::SampleKey&) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
    for (int64_t i = 1; i < 200; ++i) rows->unreadable_at_finish.insert(i);
    const auto engine = loader(rows, options(policy));
    engine->start_epoch(1, 0);
    engine->submit({1, 0});
    engine->submit(range(2, 100));
    engine->end_epoch();
    Batch batch;
    int pending = 0;
    while (engine->next(batch, 2) == Status::pending) ++pending;
    EXPECT_GE(pending, 3);
    EXPECT_TRUE(holds(batch, 0, {1, 0, 0, 0}));
  }
}

TEST_P(Policies, CloseEndsALongSearchForAReplacement) {
  auto rows = std::make_shared<FakeRows>();
  rows->size = 1'000'000;
  rows->prepare = [](const base::SampleKey& key) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    throw Error(ErrorKind::not_found, "gone", FakeRows::path(key.index));
  };
  const auto engine = loader(rows, options(ErrorPolicy::replace));
  engine->start_epoch(1, 0);
  engine->submit(range(0, 10));
  Batch batch;
  EXPECT_EQ(engine->next(batch, 20), Status::pending);
  engine->start_epoch(1, 1);
  engine->submit(range(0, 10));
  EXPECT_EQ(engine->next(batch, 20), Status::pending);
  engine->close();  // the test's time limit is the check
}

// What skip and replace mean, without threads, queues or slots.
struct Model {
  struct Row {
    int64_t index;
    uint32_t occurrence;
  };
  std::vector<std::vector<Row>> batches;
  std::vector<int64_t> errors;

  Model(const FakeRows& rows, const std::vector<int64_t>& order, size_t batch_size, ErrorPolicy policy,
        bool drop_last) {
    std::map<int64_t, uint32_t> seen;
    std::vector<Row> sequence;
    for (const int64_t index : order) sequence.push_back({index, seen[index]++});
    if (drop_last) sequence.resize(sequence.size() / batch_size * batch_size);
    size_t end = sequence.size();
    std::vector<Row> flat;
    for (size_t i = 0; i < end; ++i) {
      Row row = sequence[i];
      while (rows.unreadable(row.index)) {
        errors.push_back(row.index);
        if (policy == ErrorPolicy::replace) {
          row = {(row.index + 1) % rows.size, 0};
        } else {
          if (--end <= i) break;
          row = sequence[end];
        }
      }
      if (i < end) flat.push_back(row);
    }
    for (size_t i = 0; i < flat.size(); i += batch_size) {
      if (policy == ErrorPolicy::skip && drop_last && flat.size() - i < batch_size) break;
      batches.emplace_back(flat.begin() + static_cast<ptrdiff_t>(i),
                           flat.begin() + static_cast<ptrdiff_t>(std::min(flat.size(), i + batch_size)));
    }
  }
};

TEST_P(Policies, EqualTheModelOnRandomFailures) {
  std::mt19937 random(7);
  for (int round = 0; round < 150; ++round) {
    auto rows = std::make_shared<FakeRows>();
    rows->size = 2 + static_cast<int64_t>(random() % 60);
    rows->shape_is_fixed = random() % 2;
    rows->shape_of = [](const base::SampleKey& key) {
      // Damaged rows often show another size: they must not matter.
      return key.index % 7 == 0 ? transforms::OutputShape{3, 9, 9} : transforms::OutputShape{3, 4, 5};
    };
    const uint32_t percent = random() % 4 == 0 ? 90 : random() % 40;
    for (int64_t i = 0; i < rows->size; ++i) {
      const bool odd = !rows->shape_is_fixed && i % 7 == 0;
      auto& unreadable = random() % 2 || odd ? rows->unreadable_at_finish : rows->unreadable_at_prepare;
      if (odd || random() % 100 < percent) unreadable.insert(i);
    }
    const int64_t readable =
        1 + static_cast<int64_t>(random() % static_cast<uint32_t>(rows->size - 1)) / 7 * 7;
    rows->unreadable_at_prepare.erase(readable);
    rows->unreadable_at_finish.erase(readable);
    std::vector<int64_t> order = range(0, rows->size);
    std::shuffle(order.begin(), order.end(), random);
    if (random() % 3 == 0)
      for (int64_t& index : order) index = static_cast<int64_t>(random() % static_cast<uint32_t>(rows->size));
    order.push_back(readable);  // so that skip has something to show
    if (random() % 2) std::swap(order.front(), order.back());
    const auto batch_size = 1 + static_cast<int64_t>(random() % 9);
    const bool drop_last = random() % 2;
    for (const ErrorPolicy policy : {ErrorPolicy::replace, ErrorPolicy::skip}) {
      const Model model(*rows, order, static_cast<size_t>(batch_size), policy, drop_last);
      const auto engine = loader(rows, options(policy, drop_last));
      std::vector<Batch> batches;
      try {
        batches = epoch(*engine, order, batch_size, drop_last);
      } catch (const Error& error) {
        ASSERT_NE(std::string(error.what()).find("none of this epoch's samples"), std::string::npos)
            << error.what();
        ASSERT_TRUE(model.batches.empty());
      }
      SCOPED_TRACE("round " + std::to_string(round) + (policy == ErrorPolicy::skip ? " skip" : " replace"));
      ASSERT_EQ(batches.size(), model.batches.size());
      for (size_t b = 0; b < batches.size(); ++b) {
        ASSERT_EQ(batches[b].rows, static_cast<int64_t>(model.batches[b].size())) << b;
        ASSERT_EQ(batches[b].id, static_cast<int64_t>(b));
        for (int64_t row = 0; row < batches[b].rows; ++row) {
          const Model::Row& expected = model.batches[b][static_cast<size_t>(row)];
          ASSERT_TRUE(holds(batches[b], row, {1, 0, expected.index, expected.occurrence}))
              << "batch " << b << " row " << row;
        }
      }
      ASSERT_EQ(indices_of(engine->stats()), model.errors);
    }
  }
}

}  // namespace
}  // namespace millrace::loader::testing
