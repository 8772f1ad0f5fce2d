// Rows of every size from one table or several, through maps, backwards; indices that no row has.
#include "collate/row_gather.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <string>

namespace millrace::collate {
namespace {

// A table of `rows` rows of random bytes, `gap` bytes between them.
struct Bytes {
  Bytes(int64_t row_count, size_t size, size_t gap, uint32_t seed)
      : rows(row_count), row_bytes(size), stride(static_cast<int64_t>(size + gap)),
        memory(static_cast<size_t>(rows * stride)) {
    std::mt19937 random(seed);
    for (uint8_t& byte : memory) byte = static_cast<uint8_t>(random());
  }
  RowTable table() const { return {memory.data(), rows, stride}; }
  std::string row(int64_t i) const {
    return {reinterpret_cast<const char*>(memory.data()) + i * stride, row_bytes};
  }

  int64_t rows;
  size_t row_bytes;
  int64_t stride;
  std::vector<uint8_t> memory;
};

std::string gathered(const RowField& field, int64_t samples, const std::vector<int64_t>& indices) {
  std::vector<const uint8_t*> rows(indices.size());
  if (!locate_rows(field, samples, indices, rows.data())) return "outside";
  std::string out(indices.size() * field.row_bytes, '?');
  gather_rows(rows, field.row_bytes, reinterpret_cast<uint8_t*>(out.data()));
  return out;
}

bool found(const RowField& field, int64_t samples, int64_t index) {
  const uint8_t* row = nullptr;
  return locate_rows(field, samples, std::span(&index, 1), &row);
}

TEST(RowGather, RowsOfEverySize) {
  for (const size_t size : {0, 1, 2, 3, 4, 7, 8, 16, 24, 32, 60, 64, 65, 128, 200, 1000, 9000, 300'000}) {
    for (const size_t gap : {0, 5}) {
      const Bytes bytes(40, size, gap, 1);
      const RowField field{size, {bytes.table()}, {}};
      std::vector<int64_t> indices(57);
      std::mt19937 random(2);
      for (int64_t& index : indices) index = static_cast<int64_t>(random() % 80) - 40;
      std::string expected;
      for (const int64_t index : indices) expected += bytes.row(index < 0 ? index + 40 : index);
      EXPECT_EQ(gathered(field, 40, indices), expected) << size << " " << gap;
    }
  }
}

TEST(RowGather, StridesMayBeZeroOrNegative) {
  const Bytes bytes(10, 4, 0, 3);
  const RowField expanded{4, {{bytes.memory.data(), 10, 0}}, {}};
  EXPECT_EQ(gathered(expanded, 10, {3, 9}), bytes.row(0) + bytes.row(0));
  const RowField reversed{4, {{bytes.memory.data() + 36, 10, -4}}, {}};
  EXPECT_EQ(gathered(reversed, 10, {0, 3, -1}), bytes.row(9) + bytes.row(6) + bytes.row(0));
}

TEST(RowGather, TablesAreCountedThrough) {
  const Bytes a(3, 8, 0, 4), none(0, 8, 0, 5), b(2, 8, 3, 6);
  const RowField field{8, {none.table(), a.table(), none.table(), b.table(), none.table()}, {}};
  EXPECT_EQ(gathered(field, 5, {0, 2, 3, 4, -1, -5}),
            a.row(0) + a.row(2) + b.row(0) + b.row(1) + b.row(1) + a.row(0));
  EXPECT_FALSE(found(field, 5, 5));
}

TEST(RowGather, RowsGoToTheirPlaces) {
  const Bytes bytes(40, 6, 3, 5);
  for (const size_t count : {size_t{0}, size_t{1}, size_t{39}}) {
    std::vector<const uint8_t*> rows(count);
    std::vector<int64_t> indices(count), at(count);
    std::string expected(count * 6, '?'), out(count * 6, '?');
    for (size_t i = 0; i < count; ++i) {
      indices[i] = static_cast<int64_t>(i);
      at[i] = static_cast<int64_t>(i * 7 % count);  // 39 and 7 have no common divisor: each place once
      expected.replace(static_cast<size_t>(at[i]) * 6, 6, bytes.row(i));
    }
    ASSERT_TRUE(locate_rows({6, {bytes.table()}, {}}, 40, indices, rows.data()));
    gather_rows_to(rows, 6, at, reinterpret_cast<uint8_t*>(out.data()));
    EXPECT_EQ(out, expected);
  }
}

TEST(RowGather, MapsLeadFromSamplesToRows) {
  const Bytes a(3, 8, 0, 7), b(2, 8, 0, 8);
  const std::vector<int64_t> map{4, 0, 0, 3};
  const RowField field{8, {a.table(), b.table()}, map};
  EXPECT_EQ(gathered(field, 4, {0, 1, 2, 3, -1}), b.row(1) + a.row(0) + a.row(0) + b.row(0) + b.row(0));
}

TEST(RowGather, IndicesThatNoRowHas) {
  const Bytes bytes(5, 4, 0, 9);
  const RowField field{4, {bytes.table()}, {}};
  for (const int64_t index : {int64_t{5}, int64_t{-6}, INT64_MAX, INT64_MIN})
    EXPECT_FALSE(found(field, 5, index)) << index;
  for (const int64_t index : {4, -5}) EXPECT_TRUE(found(field, 5, index)) << index;
  EXPECT_FALSE(found({4, {}, {}}, 0, 0));
  EXPECT_FALSE(found(field, 7, 6)) << "more samples than rows";
  for (const int64_t entry : {int64_t{5}, int64_t{-1}, INT64_MIN}) {
    const std::vector<int64_t> map{entry};
    EXPECT_FALSE(found({4, {bytes.table()}, map}, 1, 0)) << entry;
  }
  const std::vector<int64_t> short_map{1, 2};
  EXPECT_FALSE(found({4, {bytes.table()}, short_map}, 3, 0)) << "a map has one entry per sample";
}

}  // namespace
}  // namespace millrace::collate
