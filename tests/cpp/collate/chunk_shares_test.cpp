#include "collate/chunk_shares.h"

#include <gtest/gtest.h>

#include <random>

#include "millrace/error.h"

namespace millrace::collate {
namespace {

ChunkShares share(const std::vector<int64_t>& indices, const std::vector<int64_t>& starts) {
  return share_by_chunk(indices, starts);
}

TEST(ChunkShares, SamplesOfAChunkAreTogetherInTheirOrder) {
  const ChunkShares found = share({7, 0, 9, 3, 8, 1}, {0, 2, 2, 7, 10});
  EXPECT_EQ(found.chunks, (std::vector<int64_t>{0, 2, 3}));
  EXPECT_EQ(found.bounds, (std::vector<int64_t>{0, 2, 3, 6}));
  EXPECT_EQ(found.places, (std::vector<int64_t>{1, 5, 3, 0, 2, 4}));
  EXPECT_EQ(found.rows, (std::vector<int64_t>{0, 1, 1, 0, 2, 1}));
}

TEST(ChunkShares, SamplesThatFollowOneAnother) {
  EXPECT_EQ(share({}, {0, 10}).successors, 0u);
  EXPECT_EQ(share({3, 4, 5, 6}, {0, 5, 10}).successors, 3u);
  EXPECT_EQ(share({6, 5, 4, 8, 9, 0}, {0, 5, 10}).successors, 1u);
}

TEST(ChunkShares, ManyChunksOfAnyLengths) {
  std::mt19937_64 random(5);
  std::vector<int64_t> starts{100};
  for (int i = 0; i < 5000; ++i)
    starts.push_back(starts.back() + static_cast<int64_t>(random() % (i % 100 == 0 ? 1000 : 4)));
  std::vector<int64_t> indices;
  for (int i = 0; i < 3000; ++i)
    indices.push_back(100 + static_cast<int64_t>(random() % static_cast<uint64_t>(starts.back() - 100)));
  const ChunkShares found = share(indices, starts);
  std::vector<bool> seen(indices.size());
  for (size_t s = 0; s < found.chunks.size(); ++s) {
    const int64_t chunk = found.chunks[s];
    if (s > 0) {
      EXPECT_GT(chunk, found.chunks[s - 1]);
    }
    ASSERT_LT(found.bounds[s], found.bounds[s + 1]);
    for (int64_t i = found.bounds[s]; i < found.bounds[s + 1]; ++i) {
      const auto place = static_cast<size_t>(found.places[static_cast<size_t>(i)]);
      const int64_t row = found.rows[static_cast<size_t>(i)], start = starts[static_cast<size_t>(chunk)];
      EXPECT_EQ(indices[place], start + row);
      EXPECT_LT(indices[place], starts[static_cast<size_t>(chunk) + 1]);
      EXPECT_FALSE(seen[place]);
      seen[place] = true;
    }
  }
  EXPECT_EQ(found.bounds.back(), static_cast<int64_t>(indices.size()));
}

TEST(ChunkShares, IndicesInNoChunk) {
  EXPECT_EQ(share({}, {0}).bounds, std::vector<int64_t>{0});
  for (const int64_t index : {int64_t{4}, int64_t{10}, INT64_MIN, INT64_MAX})
    EXPECT_THROW(share({index}, {5, 7, 10}), Error) << index;
  EXPECT_THROW(share({0}, {0}), Error);
}

}  // namespace
}  // namespace millrace::collate
