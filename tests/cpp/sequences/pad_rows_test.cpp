// pad_rows: ragged rows of numbers of any width, left and right.
#include "sequences/pad_rows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "millrace/error.h"

namespace millrace::sequences {
namespace {

template <class T>
std::vector<T> padded(const std::vector<std::vector<T>>& rows, int64_t length, T value, bool left,
                      std::vector<int64_t>* mask) {
  std::vector<RaggedRow> views;
  for (const auto& row : rows)
    views.push_back({reinterpret_cast<const uint8_t*>(row.data()), static_cast<int64_t>(row.size())});
  std::vector<T> out(rows.size() * static_cast<size_t>(length), T{9});
  if (mask) mask->assign(out.size(), 9);
  const Padding padding{length, sizeof(T), sizeof(T), reinterpret_cast<const uint8_t*>(&value), left};
  pad_rows(views, padding, reinterpret_cast<uint8_t*>(out.data()), mask ? mask->data() : nullptr);
  return out;
}

template <class T>
class PadRows : public testing::Test {};
using Types = testing::Types<uint8_t, int16_t, float, int64_t>;
TYPED_TEST_SUITE(PadRows, Types);

TYPED_TEST(PadRows, BothSides) {
  using Values = std::vector<TypeParam>;
  const std::vector<Values> rows{{1, 2}, {}, {3, 4, 5}};
  std::vector<int64_t> mask;
  EXPECT_EQ((padded<TypeParam>(rows, 4, 7, false, &mask)), (Values{1, 2, 7, 7, 7, 7, 7, 7, 3, 4, 5, 7}));
  EXPECT_EQ(mask, (std::vector<int64_t>{1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0}));
  EXPECT_EQ((padded<TypeParam>(rows, 3, 7, true, &mask)), (Values{7, 1, 2, 7, 7, 7, 3, 4, 5}));
  EXPECT_EQ(mask, (std::vector<int64_t>{0, 1, 1, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ((padded<TypeParam>(rows, 3, 0, false, nullptr)), (Values{1, 2, 0, 0, 0, 0, 3, 4, 5}));
  EXPECT_THROW((padded<TypeParam>(rows, 2, 0, false, nullptr)), Error);
}

TEST(PadRowsOfRows, WideNumbersAndItems) {
  const std::vector<double> row{1, 2, 3, 4}, value{5, 6};  // two items of one number of 16 bytes each
  std::vector<double> out(6);
  const RaggedRow view{reinterpret_cast<const uint8_t*>(row.data()), 2};
  pad_rows({&view, 1}, {3, 16, 16, reinterpret_cast<const uint8_t*>(value.data()), false},
           reinterpret_cast<uint8_t*>(out.data()), nullptr);
  EXPECT_EQ(out, (std::vector<double>{1, 2, 3, 4, 5, 6}));
  const double one = 7;  // two items of two numbers each
  pad_rows({&view, 1}, {3, 16, 8, reinterpret_cast<const uint8_t*>(&one), true},
           reinterpret_cast<uint8_t*>(out.data()), nullptr);
  EXPECT_EQ(out, (std::vector<double>{7, 7, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace millrace::sequences
