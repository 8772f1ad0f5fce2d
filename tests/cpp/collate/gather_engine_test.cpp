// Batches in order and whole, with and without threads; slots leased, kept and come back at any time; ends
// and forks.
#include "collate/gather_engine.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "millrace/error.h"

namespace millrace::collate {
namespace {

using Status = GatherEngine::Status;

constexpr size_t kRowBytes = 40'000;
constexpr int64_t kRows = 60;

// Row i is filled with the byte i.
const std::vector<uint8_t>& table() {
  static const std::vector<uint8_t> bytes = [] {
    std::vector<uint8_t> filled(kRows * kRowBytes);
    for (size_t i = 0; i < kRows; ++i)
      std::memset(filled.data() + i * kRowBytes, static_cast<int>(i), kRowBytes);
    return filled;
  }();
  return bytes;
}

RowCopy copy_of(size_t field, const std::vector<int64_t>& rows, size_t row_bytes = kRowBytes) {
  RowCopy copy{field, row_bytes, {}};
  for (const int64_t row : rows) copy.rows.push_back(table().data() + static_cast<size_t>(row) * kRowBytes);
  return copy;
}

// Batch `number` of a run: rows number, number + 1, ... of both fields, the second one narrower.
std::vector<RowCopy> batch(int64_t number, int64_t rows = 10) {
  std::vector<int64_t> wanted;
  for (int64_t i = 0; i < rows; ++i) wanted.push_back((number + i * 7) % kRows);
  return {copy_of(0, wanted), copy_of(1, wanted, 3000)};
}

bool holds(const std::vector<core::Lease>& leases, int64_t number, int64_t rows = 10) {
  if (leases.size() != 2) return false;
  for (int64_t i = 0; i < rows; ++i)
    for (const auto& [lease, bytes] :
         {std::pair(&leases[0], kRowBytes), std::pair(&leases[1], size_t{3000})}) {
      const std::vector<uint8_t> expected(bytes, static_cast<uint8_t>((number + i * 7) % kRows));
      if (std::memcmp(lease->data() + static_cast<size_t>(i) * bytes, expected.data(), bytes) != 0)
        return false;
    }
  return leases[0].size_bytes() == kRowBytes * static_cast<size_t>(rows) &&
         leases[1].size_bytes() == 3000 * static_cast<size_t>(rows);
}

Status next(GatherEngine& engine, std::vector<core::Lease>& out) {
  Status status = Status::pending;
  for (int i = 0; i < 2000 && status == Status::pending; ++i) status = engine.next(out, 10);
  return status;
}

class Gather : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, Gather, ::testing::Values(0, 1, 3));

TEST_P(Gather, BatchesComeInOrderAndEnd) {
  GatherEngine engine(GetParam(), 2, 2);
  std::vector<core::Lease> out;
  EXPECT_EQ(engine.next(out, 0), Status::end);
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int64_t i = 0; i < 20; ++i) engine.submit(batch(i, 10 + i % 3));
    for (int64_t i = 0; i < 20; ++i) {
      ASSERT_EQ(next(engine, out), Status::ready);
      EXPECT_TRUE(holds(out, i, 10 + i % 3)) << i;
    }
    EXPECT_EQ(engine.next(out, 0), Status::end);
  }
  EXPECT_EQ(engine.overflow_count(), 0) << "one batch with the user, one in work: two slots are enough";
}

TEST_P(Gather, PiecesMayBeSmall) {
  GatherEngine engine(GetParam(), 2, 2);
  std::vector<core::Lease> out;
  for (int64_t i = 0; i < 20; ++i) {
    std::vector<RowCopy> copies = batch(i, 23);
    copies[0].piece_bytes = 1;  // a row is the least
    copies[1].piece_bytes = static_cast<size_t>(i) * 3000;
    engine.submit(std::move(copies));
  }
  for (int64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(next(engine, out), Status::ready);
    EXPECT_TRUE(holds(out, i, 23)) << i;
  }
}

TEST_P(Gather, WhoKeepsEveryBatchGetsEveryBatch) {
  GatherEngine engine(GetParam(), 2, 2);
  std::vector<std::vector<core::Lease>> kept(8);
  for (int64_t i = 0; i < 8; ++i) engine.submit(batch(i));
  for (auto& leases : kept) ASSERT_EQ(next(engine, leases), Status::ready);
  for (int64_t i = 0; i < 8; ++i) EXPECT_TRUE(holds(kept[static_cast<size_t>(i)], i));
  EXPECT_GE(engine.overflow_count(), 2 * 6);
}

TEST_P(Gather, DiscardedBatchesAreForgotten) {
  GatherEngine engine(GetParam(), 3, 2);
  std::vector<core::Lease> out;
  for (int64_t round = 0; round < 30; ++round) {
    for (int64_t i = 0; i < 4; ++i) engine.submit(batch(i));
    if (round % 2) {
      ASSERT_EQ(next(engine, out), Status::ready);
    }
    engine.discard_all();
    engine.submit(batch(round));
    ASSERT_EQ(next(engine, out), Status::ready);
    EXPECT_TRUE(holds(out, round));
    EXPECT_EQ(engine.next(out, 0), Status::end);
  }
}

TEST_P(Gather, NoMemoryIsThatBatchsError) {
  GatherEngine engine(GetParam(), 2, 1);
  RowCopy absurd{0, size_t{1} << 60, std::vector<const uint8_t*>(2, table().data())};
  engine.submit({copy_of(0, {1})});
  engine.submit({std::move(absurd)});
  engine.submit({copy_of(0, {2})});
  std::vector<core::Lease> out;
  ASSERT_EQ(next(engine, out), Status::ready);
  EXPECT_THROW(next(engine, out), Error);
  ASSERT_EQ(next(engine, out), Status::ready);
  EXPECT_EQ(out[0].data()[0], 2);
}

TEST_P(Gather, EndsAtAnyMoment) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    std::vector<core::Lease> kept, out;
    {
      GatherEngine engine(GetParam(), 1 + static_cast<int>(random() % 3), 2);
      for (int64_t i = 0; i < 6; ++i) engine.submit(batch(i));
      for (auto taken = random() % 4; taken > 0; --taken) {
        ASSERT_EQ(next(engine, out), Status::ready);
        for (core::Lease& lease : out)
          if (random() % 2) kept.push_back(std::move(lease));
      }
      if (round % 3 == 0) engine.close();
    }
    // What was kept is readable, and may go on any thread.
    std::thread([leases = std::move(kept)]() mutable {
      for (const core::Lease& lease : leases) static_cast<void>(lease.data()[0]);
      leases.clear();
    }).join();
  }
}

// What each call of the consumer's says that meets close(): true behind the end, and nothing else is thrown.
template <class Call>
bool was_closed(Call&& call) {
  try {
    call();
    return false;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unavailable) << error.what();
    return true;
  }
}

TEST_P(Gather, AnyThreadMayCloseItAtAnyMoment) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    GatherEngine engine(GetParam(), 1 + static_cast<int>(random() % 3), 2);
    std::atomic<int64_t> taken{0};
    const auto goal = static_cast<int64_t>(random() % 6);
    std::vector<std::thread> closers;
    for (int i = 0; i < 2; ++i)
      closers.emplace_back([&, i] {
        while (taken < goal) std::this_thread::yield();
        if (i == 1) engine.set_limits(1, 2);
        engine.close();
      });
    std::vector<core::Lease> out;
    for (int64_t i = 0;; ++i) {
      if (was_closed([&] { engine.submit(batch(i, 3)); })) break;
      if (round % 3 == 0 && i % 4 == 3 && was_closed([&] {
            engine.discard_all();
            engine.submit(batch(i, 3));
          }))
        break;
      Status status = Status::end;
      if (was_closed([&] { status = engine.next(out, 600'000); })) break;  // one that is not woken hangs
      if (status == Status::end) break;
      ASSERT_EQ(status, Status::ready);
      ASSERT_TRUE(holds(out, i, 3));
      ++taken;
    }
    for (std::thread& closer : closers) closer.join();
    EXPECT_EQ(engine.next(out, 0), Status::end);
    EXPECT_TRUE(was_closed([&] { engine.submit(batch(0)); }));
  }
}

TEST_P(Gather, WrongUseIsSaid) {
  EXPECT_THROW(GatherEngine(GetParam(), 0, 1), Error);
  GatherEngine engine(GetParam(), 1, 1);
  EXPECT_THROW(engine.submit({}), Error);
  EXPECT_THROW(engine.submit({copy_of(0, {})}), Error);
  engine.close();
  EXPECT_THROW(engine.submit({copy_of(0, {1})}), Error);
  engine.close();
}

TEST_P(Gather, AForkedChildLeavesItAlone) {
  auto engine = std::make_unique<GatherEngine>(GetParam(), 2, 2);
  for (int64_t i = 0; i < 10; ++i) engine->submit(batch(i));
  std::vector<core::Lease> out;
  ASSERT_EQ(next(*engine, out), Status::ready);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    bool right = holds(out, 0);
    const auto refuses = [](const auto& call) {
      try {
        call();
      } catch (const Error& error) {
        return error.kind() == ErrorKind::unavailable;
      }
      return false;
    };
    // What counts takes locks, too, which another thread may have held at the fork.
    right = right && refuses([&] { engine->next(out, 10); }) && refuses([&] { engine->slots(); }) &&
            refuses([&] { engine->overflow_count(); }) && refuses([&] { engine->copy_ns(); }) &&
            refuses([&] { engine->set_limits(1, 1); }) && engine->clocks().empty();
    out.clear();
    engine.reset();
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  for (int64_t i = 1; i < 10; ++i) {
    ASSERT_EQ(next(*engine, out), Status::ready);
    EXPECT_TRUE(holds(out, i));
  }
}

TEST(GatherEngine, LimitsChange) {
  GatherEngine engine(3, 2, 2);
  engine.set_limits(1, 5);
  EXPECT_EQ(engine.slots(), 5);
  EXPECT_THROW(engine.set_limits(0, 1), Error);
  EXPECT_THROW(engine.set_limits(1, 0), Error);
}

}  // namespace
}  // namespace millrace::collate
