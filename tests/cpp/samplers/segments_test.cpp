// ShardOrder and SegmentShuffle: every sample once, runs in order or within their places.
#include "samplers/segments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "millrace/error.h"
#include "statistics.h"

namespace millrace::samplers {
namespace {

using Indices = std::vector<int64_t>;

const Indices kSegments{5, 0, 9, 1, 3, 0};

template <class Order>
Indices ask(const Order& order, const Indices& positions) {
  Indices out(positions.size());
  order.at(positions, out);
  return out;
}

TEST(ShardOrder, ShardsComeWhole) {
  std::set<Indices> orders;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Indices order = ask(ShardOrder(kSegments, seed, 0), first_numbers(18));
    int jumps = 0;
    for (size_t i = 1; i < order.size(); ++i) jumps += order[i] != order[i - 1] + 1;
    EXPECT_LE(jumps, 3);
    orders.insert(order);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, first_numbers(18));
  }
  EXPECT_EQ(orders.size(), 24u) << "all orders of the four shards that have samples";
}

TEST(SegmentShuffle, RunsStayInTheirPlaces) {
  const Indices order = ask(SegmentShuffle(kSegments, 2, 1), first_numbers(18));
  size_t begin = 0;
  for (const int64_t length : kSegments) {
    Indices run(order.begin() + static_cast<int64_t>(begin),
                order.begin() + static_cast<int64_t>(begin) + length);
    std::sort(run.begin(), run.end());
    for (size_t i = 0; i < run.size(); ++i) EXPECT_EQ(run[i], static_cast<int64_t>(begin + i));
    begin += static_cast<size_t>(length);
  }
  EXPECT_NE(order, first_numbers(18));
}

template <class Order>
void check_questions() {
  const Order order(kSegments, 3, 4);
  const Indices whole = ask(order, first_numbers(18));
  EXPECT_EQ(ask(order, {17, 0, 9, 9}), (Indices{whole[17], whole[0], whole[9], whole[9]}));
  EXPECT_THROW(ask(order, {18}), Error);
  EXPECT_THROW(ask(order, {-1}), Error);
  EXPECT_THROW(Order(Indices{1, -1}, 0, 0), Error);
  EXPECT_THROW(Order(Indices{int64_t{1} << 62, 1}, 0, 0), Error);
  EXPECT_EQ(Order(Indices{}, 0, 0).size(), 0);
}

TEST(ShardOrder, AnyQuestion) { check_questions<ShardOrder>(); }
TEST(SegmentShuffle, AnyQuestion) { check_questions<SegmentShuffle>(); }

}  // namespace
}  // namespace millrace::samplers
