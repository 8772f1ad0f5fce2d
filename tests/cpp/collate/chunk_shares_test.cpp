#include "collate/chunk_shares.h"

#include <gtest/gtest.h>

#include <random>

#include "millrace/error.h"

namespace millrace {
namespace {

struct Sorted {
  ChunkShares shares;
  std::vector<int64_t> places, rows;
};

Sorted sorted(const std::vector<int64_t>& indices, const std::vector<int64_t>& starts) {
  Sorted result{{}, std::vector<int64_t>(indices.size()), std::vector<int64_t>(indices.size())};
  result.shares = share_by_chunk(indices, starts, result.places, result.rows);
  return result;
}

TEST(ChunkShares, SamplesOfAChunkAreTogetherInTheirOrder) {
  const Sorted found = sorted({7, 0, 9, 3, 8, 1}, {0, 2, 2, 7, 10});
  EXPECT_EQ(found.shares.chunks, (std::vector<int64_t>{0, 2, 3}));
  EXPECT_EQ(found.shares.bounds, (std::vector<int64_t>{0, 2, 3, 6}));
  EXPECT_EQ(found.places, (std::vector<int64_t>{1, 5, 3, 0, 2, 4}));
  EXPECT_EQ(found.rows, (std::vector<int64_t>{0, 1, 1, 0, 2, 1}));
}

TEST(ChunkShares, ManyChunksOfAnyLengths) {
  std::mt19937_64 random(5);
  std::vector<int64_t> starts{100};
  for (int i = 0; i < 5000; ++i) starts.push_back(starts.back() + static_cast<int64_t>(random() % (i % 100 == 0 ? 1000 : 4)));
  std::vector<int64_t> indices;
  for (int i = 0; i < 3000; ++i) indices.push_back(100 + static_cast<int64_t>(random() % static_cast<uint64_t>(starts.back() - 100)));
  const Sorted found = sorted(indices, starts);
  std::vector<bool> seen(indices.size());
  for (size_t s = 0; s < found.shares.chunks.size(); ++s) {
    const int64_t chunk = found.shares.chunks[s];
    if (s > 0) {
      EXPECT_GT(chunk, found.shares.chunks[s - 1]);
    }
    ASSERT_LT(found.shares.bounds[s], found.shares.bounds[s + 1]);
    for (int64_t i = found.shares.bounds[s]; i < found.shares.bounds[s + 1]; ++i) {
      const auto place = static_cast<size_t>(found.places[static_cast<size_t>(i)]);
      const int64_t row = found.rows[static_cast<size_t>(i)], start = starts[static_cast<size_t>(chunk)];
      EXPECT_EQ(indices[place], start + row);
      EXPECT_LT(indices[place], starts[static_cast<size_t>(chunk) + 1]);
      EXPECT_FALSE(seen[place]);
      seen[place] = true;
    }
  }
  EXPECT_EQ(found.shares.bounds.back(), static_cast<int64_t>(indices.size()));
}

TEST(ChunkShares, IndicesInNoChunk) {
  EXPECT_EQ(sorted({}, {0}).shares.bounds, std::vector<int64_t>{0});
  for (const int64_t index : {int64_t{4}, int64_t{10}, INT64_MIN, INT64_MAX}) EXPECT_THROW(sorted({index}, {5, 7, 10}), Error) << index;
  EXPECT_THROW(sorted({0}, {0}), Error);
}

}  // namespace
}  // namespace millrace
