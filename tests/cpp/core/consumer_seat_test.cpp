// ConsumerSeat: one sits at a time, nobody sits down after close(), and who tears down waits for who sits.
#include "core/consumer_seat.h"

#include <gtest/gtest.h>

#include <vector>

#include "millrace/error.h"

namespace millrace::core {
namespace {

// An engine reduced to its end: `parts` is the consumer's, without a lock of its own.
struct Engine {
  ConsumerSeat seat;
  std::vector<int> parts = std::vector<int>(100, 1);
  bool gone = false;

  int next() {
    const auto sitting = seat.sit();
    EXPECT_FALSE(gone);
    int sum = 0;
    for (const int part : parts) sum += part;
    seat.throw_if_closed();
    return sum;
  }
  void close() {
    seat.close();
    if (seat.holds_current()) return;
    const auto sitting = seat.last();
    if (gone) return;
    parts.clear();
    parts.shrink_to_fit();
    gone = true;
  }
};

TEST(ConsumerSeat, NothingGoesUnderTheConsumer) {
  for (int round = 0; round < 300; ++round) {
    Engine engine;
    std::atomic<int> taken{0};
    std::vector<std::thread> closers;
    for (int i = 0; i < 2; ++i)
      closers.emplace_back([&] {
        while (taken < round % 5) std::this_thread::yield();
        engine.close();
        EXPECT_TRUE(engine.gone);
      });
    try {
      for (;; ++taken) ASSERT_EQ(engine.next(), 100);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unavailable);
    }
    for (std::thread& closer : closers) closer.join();
  }
}

TEST(ConsumerSeat, AThreadInsideACallClosesWithoutWaitingForItself) {
  Engine engine;
  {
    const auto sitting = engine.seat.sit();
    EXPECT_TRUE(engine.seat.holds_current());
    EXPECT_THROW(engine.seat.sit(), Error);
    engine.close();
    EXPECT_FALSE(engine.gone);
  }
  engine.close();
  EXPECT_TRUE(engine.gone);
  EXPECT_THROW(engine.next(), Error);
}

}  // namespace
}  // namespace millrace::core
