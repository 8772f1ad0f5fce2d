// Rows of every layout against a plain loop over their values; layouts that are one run after all; rows of
// files that are cut short.
#include "collate/strided_row.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "collate/row_maker.h"
#include "millrace/error.h"

namespace millrace::collate {
namespace {

void append_values(const uint8_t* row, std::span<const RowAxis> axes, size_t item_bytes,
                   std::vector<uint8_t>& out) {
  if (axes.empty()) {
    out.insert(out.end(), row, row + item_bytes);
    return;
  }
  for (int64_t k = 0; k < axes.front().size; ++k)
    append_values(row + k * axes.front().stride_bytes, axes.subspan(1), item_bytes, out);
}

std::vector<uint8_t> gathered(const StridedRow& row, const std::vector<const uint8_t*>& rows) {
  const size_t bytes = rows.size() * row.row_bytes();
  std::vector<uint8_t> out(bytes + 8, 0xee);
  row.gather(rows, out.data());
  uint8_t* const end = out.data() + bytes;
  EXPECT_TRUE(std::all_of(end, end + 8, [](uint8_t byte) { return byte == 0xee; })) << "wrote behind the end";
  return std::vector<uint8_t>(out.data(), end);
}

TEST(StridedRow, EveryLayoutGivesItsValuesInOrder) {
  std::vector<uint8_t> memory(1 << 20);
  std::mt19937 random(5);
  for (uint8_t& byte : memory) byte = static_cast<uint8_t>(random());
  const auto draw = [&random](int64_t from, int64_t to) {
    return std::uniform_int_distribution(from, to)(random);
  };
  for (int round = 0; round < 3000; ++round) {
    const size_t item = size_t{1} << draw(0, 4);
    std::vector<RowAxis> axes;
    for (int64_t axis = draw(0, 4); axis > 0; --axis) {
      const int64_t step = draw(0, 3) == 0 ? 1 : draw(-20, 900);
      axes.push_back({draw(0, 9) == 0 ? draw(0, 1) : draw(2, 6), step * static_cast<int64_t>(item)});
    }
    if (draw(0, 1)) {  // dense at its end, perhaps all of it
      int64_t stride = static_cast<int64_t>(item);
      for (size_t k = axes.size(); k-- > static_cast<size_t>(draw(0, static_cast<int64_t>(axes.size())));) {
        axes[k].stride_bytes = stride;
        stride *= axes[k].size;
      }
    }
    const StridedRow row(axes, item);
    ASSERT_LT(row.end() - row.begin(), 900'000);
    std::vector<const uint8_t*> rows;
    for (int64_t i = draw(0, 80); i > 0; --i) rows.push_back(memory.data() - row.begin() + draw(0, 1000) * 8);
    std::vector<uint8_t> expected;
    for (const uint8_t* at : rows) append_values(at, axes, item, expected);
    ASSERT_EQ(gathered(row, rows), expected) << round;
  }
}

TEST(StridedRow, ManyRowsOfAColumnMajorTable) {
  constexpr int64_t kTall = 5000, kColumns = 30;
  std::vector<float> table(kTall * kColumns);
  std::iota(table.begin(), table.end(), 0.0f);
  const RowAxis columns{kColumns, kTall * 4};
  const StridedRow row(std::span(&columns, 1), 4);
  EXPECT_FALSE(row.is_dense());
  EXPECT_EQ(row.end(), (kColumns - 1) * kTall * 4 + 4);
  EXPECT_EQ(row.last_item(), (kColumns - 1) * kTall * 4);
  std::vector<const uint8_t*> rows;
  for (int64_t i = 0; i < kTall; ++i)
    rows.push_back(reinterpret_cast<const uint8_t*>(table.data() + i * 7 % kTall));
  const auto out = gathered(row, rows);
  for (int64_t i = 0; i < kTall; ++i)
    for (int64_t c = 0; c < kColumns; ++c) {
      float value;
      std::memcpy(&value, out.data() + (i * kColumns + c) * 4, 4);
      ASSERT_EQ(value, table[static_cast<size_t>(c * kTall + i * 7 % kTall)]);
    }
}

TEST(StridedRow, WhatLiesTogetherIsOneRun) {
  const std::vector<RowAxis> dense{{3, 40}, {1, 7}, {5, 8}}, empty{{3, 8}, {0, 8}};
  EXPECT_TRUE(StridedRow(dense, 8).is_dense());
  EXPECT_TRUE(StridedRow({}, 8).is_dense());
  EXPECT_EQ(StridedRow(dense, 8).row_bytes(), 120u);
  EXPECT_EQ(StridedRow(empty, 8).row_bytes(), 0u);
  EXPECT_EQ(StridedRow(empty, 8).end(), 0);
  const std::vector<RowAxis> back{{4, -8}};
  EXPECT_EQ(StridedRow(back, 8).begin(), -24);
  EXPECT_EQ(StridedRow(back, 8).end(), 8);
}

TEST(StridedRow, OnlyDenseRowsAreWidened) {
  const RowAxis axis{4, 100};
  RowMakerOptions options;
  options.stored = base::DType::u16;
  options.made = base::DType::i64;
  options.elements = 4;
  options.strided = StridedRow(std::span(&axis, 1), 2);
  EXPECT_THROW(RowMaker{options}, Error);
}

// A file of two columns, cut in the second: behind its last page that is a signal, within it zeros.
TEST(StridedRow, FilesThatAreCutShortAreErrors) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  char name[] = "/tmp/millrace_strided_XXXXXX";
  const int file = mkstemp(name);
  std::vector<uint8_t> bytes(page * 8, 1);
  ASSERT_EQ(write(file, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  auto* const mapped =
      static_cast<const uint8_t*>(mmap(nullptr, bytes.size(), PROT_READ, MAP_SHARED, file, 0));
  const RowAxis axis{2, static_cast<int64_t>(page * 4)};
  bool shrank = false;
  RowMakerOptions options;
  options.stored = options.made = base::DType::u8;
  options.elements = 2;
  options.strided = StridedRow(std::span(&axis, 1), 1);
  options.guarded = true;
  options.files.push_back({mapped, mapped + bytes.size(), name, 0, [&shrank] { return shrank; }, mapped, {}});
  const RowMaker maker(options);
  const std::vector<const uint8_t*> near{mapped + 5, mapped + 6}, middle{mapped + page + 200},
      far{mapped + 2 * page};
  std::vector<uint8_t> out(4);
  maker.make(near, out.data(), false);
  EXPECT_EQ(out, (std::vector<uint8_t>{1, 1, 1, 1}));
  ASSERT_EQ(ftruncate(file, static_cast<off_t>(page * 5 + 100)), 0);
  shrank = true;
  maker.make(near, out.data(), false);
  for (const auto& rows : {middle, far}) {
    try {
      maker.make(rows, out.data(), false);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::corrupt_data);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos);
    }
  }
  munmap(const_cast<uint8_t*>(mapped), bytes.size());
  close(file);
  unlink(name);
}

}  // namespace
}  // namespace millrace::collate
