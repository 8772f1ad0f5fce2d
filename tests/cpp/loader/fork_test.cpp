// A forked child may drop, close and destroy what it inherited, at any moment, and nothing of the parent
// changes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "../in_child.h"
#include "fake_rows.h"

namespace millrace::loader::testing {
namespace {

using Status = DataLoader::Status;

class Fork : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Loader, Fork, ::testing::Values(0, 2));

TEST_P(Fork, AChildMayDropEverythingAtAnyMoment) {
  auto rows = std::make_shared<FakeRows>();
  rows->size = 4000;
  rows->shape = {3, 64, 352};
  auto engine = loader(rows, {GetParam(), 3, ErrorPolicy::raise, false});
  engine->start_epoch(1, 0);
  for (int64_t i = 0; i < 1000; ++i) engine->submit(range(i * 4, i * 4 + 4));
  engine->end_epoch();
  Batch held, batch;
  int64_t taken = 0;
  for (int round = 0; round < 30; ++round) {
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(next(*engine, batch), Status::ready);
      for (int64_t row = 0; row < 4; ++row) ASSERT_TRUE(holds(batch, row, {1, 0, taken * 4 + row, 0}));
      ++taken;
      held = std::move(batch);
    }
    EXPECT_TRUE(in_child([&] {
      const bool readable = holds(held, 3, {1, 0, taken * 4 - 1, 0});
      held = {};
      engine->close();
      engine.reset();
      return readable;
    }));
    EXPECT_TRUE(holds(held, 3, {1, 0, taken * 4 - 1, 0}));
  }
  EXPECT_EQ(engine->stats().overflow_slots, 0);
}

TEST_P(Fork, EveryCallInAChildIsRefusedWithASentence) {
  auto rows = std::make_shared<FakeRows>();
  const auto engine = loader(rows, {GetParam(), 3, ErrorPolicy::raise, false});
  engine->start_epoch(1, 0);
  engine->submit({1});
  EXPECT_TRUE(in_child([&] {
    Batch batch;
    return refuses_fork([&] { engine->next(batch, 10); }) && refuses_fork([&] { engine->submit({2}); }) &&
           refuses_fork([&] { engine->end_epoch(); }) && refuses_fork([&] { engine->start_epoch(1, 1); }) &&
           refuses_fork([&] { engine->stats(); });
  }));
  Batch batch;
  EXPECT_EQ(next(*engine, batch), Status::ready);
}

// The thread sanitizer does not start threads in a child forked from a process with several: there the child
// works inline.
#if defined(__SANITIZE_THREAD__)
constexpr int kChildThreads = 0;
#else
constexpr int kChildThreads = 2;
#endif

TEST_P(Fork, AChildMayMakeItsOwnLoader) {
  auto rows = std::make_shared<FakeRows>();
  rows->shape = {3, 64, 352};
  auto engine = loader(rows, {GetParam(), 3, ErrorPolicy::raise, false});
  engine->start_epoch(1, 0);
  engine->submit(range(0, 50));
  EXPECT_TRUE(in_child([&] {
    auto own = loader(rows, {kChildThreads, 3, ErrorPolicy::raise, false});
    return epoch(*own, range(0, 40), 4).size() == 10;
  }));
}

}  // namespace
}  // namespace millrace::loader::testing
