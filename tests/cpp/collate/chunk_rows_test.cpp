// Rows of chunks in batches: interleaved or not, of any sizes, from several chunks at once, in parts; rows
// that are not there.
#include "collate/chunk_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>
#include <random>
#include <thread>

#include "millrace/error.h"

namespace millrace::collate {
namespace {

// Columns of random bytes, `sizes` of each row; some of items of a power of two.
struct Table {
  Table(const std::vector<std::pair<size_t, size_t>>& sizes, int64_t row_count, uint32_t seed)
      : rows(row_count) {
    std::mt19937 random(seed);
    for (const auto& [bytes, item] : sizes) {
      auto& memory = columns.emplace_back(bytes * static_cast<size_t>(rows));
      for (uint8_t& byte : memory) byte = static_cast<uint8_t>(random());
      described.push_back({memory.data(), bytes, item, static_cast<int64_t>(bytes)});
    }
  }
  const uint8_t* value(size_t column, int64_t row) const {
    return columns[column].data() + static_cast<size_t>(row) * described[column].row_bytes;
  }

  int64_t rows;
  std::vector<std::vector<uint8_t>> columns;
  std::vector<ChunkRows::Column> described;
};

const std::vector<std::pair<size_t, size_t>> kMixed{{4, 4},   {8, 8}, {1, 1}, {12, 4}, {100, 4},
                                                    {16, 16}, {2, 2}, {3, 1}, {8, 8},  {64, 8}};

struct Batch {
  Batch(const Table& like, size_t rows) : size(rows) {
    for (const auto& column : like.described) columns.emplace_back(rows * column.row_bytes, uint8_t{0xEE});
    for (auto& column : columns) out.push_back(column.data());
  }

  size_t size;
  std::vector<std::vector<uint8_t>> columns;
  std::vector<uint8_t*> out;
};

TEST(ChunkRows, InterleavedColumnsHoldTheSameValues) {
  const Table table(kMixed, 5000, 1);
  const ChunkRows apart(table.described, table.rows, false), chunk(table.described, table.rows, true);
  EXPECT_EQ(apart.columns(), table.described);
  for (size_t c = 0; c < kMixed.size(); ++c) {
    EXPECT_FALSE(apart.is_interleaved(c));
    EXPECT_EQ(chunk.is_interleaved(c), kMixed[c].first <= 64) << "wide values stay where they are";
    const ChunkRows::Column& column = chunk.columns()[c];
    EXPECT_EQ(column.row_bytes, kMixed[c].first);
    for (int64_t row = 0; row < table.rows; ++row) {
      const uint8_t* const value = column.data + row * column.stride_bytes;
      ASSERT_EQ(std::memcmp(value, table.value(c, row), kMixed[c].first), 0) << c << " " << row;
      ASSERT_EQ(reinterpret_cast<uintptr_t>(value) % kMixed[c].second, 0u) << "aligned as its items want it";
    }
  }
}

TEST(ChunkRows, WhatIsNotInterleaved) {
  const Table small(kMixed, 100, 2), one({{8, 8}}, 100'000, 3), two({{8, 8}, {4, 4}}, 100'000, 4);
  EXPECT_FALSE(ChunkRows(small.described, small.rows, true).is_interleaved(0)) << "it stays in the cache";
  EXPECT_FALSE(ChunkRows(one.described, one.rows, true).is_interleaved(0)) << "there is nothing beside it";
  EXPECT_TRUE(ChunkRows(two.described, two.rows, true).is_interleaved(1));
  auto strided = two.described;
  strided[0].stride_bytes = -8;
  strided[0].data = two.value(0, two.rows - 1);
  EXPECT_FALSE(ChunkRows(strided, two.rows, true).is_interleaved(0));
  const ChunkRows none({}, 0, true);
  EXPECT_TRUE(none.columns().empty());
}

// Chunks in every form, dealt by a few threads at once, whole batches and parts of them.
TEST(ChunkRows, BatchesFromSeveralChunks) {
  std::vector<Table> tables;
  std::deque<ChunkRows> interleaved, mixed;
  for (uint32_t i = 0; i < 5; ++i) {
    tables.emplace_back(kMixed, 3000 + 100 * i, i);
    interleaved.emplace_back(tables[i].described, tables[i].rows, true);
    mixed.emplace_back(tables[i].described, tables[i].rows, i % 2 == 0);
  }
  const auto work = [&](uint32_t seed) {
    std::mt19937 random(seed);
    RowDealer dealer;
    for (const size_t size : {1, 31, 32, 33, 1000}) {
      std::vector<int64_t> places(size), rows(size);
      std::iota(places.begin(), places.end(), 0);
      std::shuffle(places.begin(), places.end(), random);
      std::vector<size_t> bounds{0, size / 7, size / 3, size / 2, size / 2, size};
      Batch batch(tables[0], size);
      std::vector<ChunkShare> shares;
      for (size_t s = 0; s < 5; ++s) {
        const auto own = std::span(rows).subspan(bounds[s], bounds[s + 1] - bounds[s]);
        for (int64_t& row : own) row = static_cast<int64_t>(random() % static_cast<uint64_t>(tables[s].rows));
        shares.push_back(
            {seed % 2 ? &interleaved[s] : &mixed[s], own, std::span(places).subspan(bounds[s], own.size())});
      }
      if (seed % 3 == 0) {
        dealer.copy(std::span(shares).first(2), size, batch.out);
        dealer.copy(std::span(shares).subspan(2), size, batch.out);
      } else {
        dealer.copy(shares, size, batch.out);
      }
      for (size_t s = 0; s < 5; ++s)
        for (size_t i = bounds[s]; i < bounds[s + 1]; ++i)
          for (size_t c = 0; c < kMixed.size(); ++c) {
            const size_t bytes = kMixed[c].first;
            EXPECT_EQ(std::memcmp(batch.out[c] + static_cast<size_t>(places[i]) * bytes,
                                  tables[s].value(c, rows[i]), bytes),
                      0);
          }
    }
  };
  std::vector<std::jthread> threads;
  for (uint32_t seed = 0; seed < 6; ++seed) threads.emplace_back(work, seed);
}

TEST(ChunkRows, RowsFromTheEndAndBeyond) {
  const Table table({{8, 8}, {4, 4}}, 20'000, 5);
  const ChunkRows chunk(table.described, table.rows, true);
  ASSERT_TRUE(chunk.is_interleaved(0));
  RowDealer dealer;
  Batch batch(table, 2);
  const std::vector<int64_t> places{1, 0};
  for (const std::vector<int64_t>& rows : {std::vector<int64_t>{-1, -20'000}, {19'999, 0}}) {
    dealer.copy(std::vector<ChunkShare>{{&chunk, rows, places}}, 2, batch.out);
    EXPECT_EQ(std::memcmp(batch.out[0] + 8, table.value(0, 19'999), 8), 0);
    EXPECT_EQ(std::memcmp(batch.out[1], table.value(1, 0), 4), 0);
  }
  for (const int64_t row : {int64_t{20'000}, int64_t{-20'001}, INT64_MIN, INT64_MAX}) {
    const std::vector<int64_t> rows{0, row};
    EXPECT_THROW(dealer.copy(std::vector<ChunkShare>{{&chunk, rows, places}}, 2, batch.out), Error) << row;
  }
}

}  // namespace
}  // namespace millrace::collate
