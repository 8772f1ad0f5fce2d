// Every instruction set that this machine has gives the numbers of the scalar kernels, and touches nothing
// else.
#include "collate/token_kernels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "collate/whole_numbers.h"
#include "hwy/highway.h"
#include "../instruction_sets.h"

namespace millrace::collate {
namespace {

constexpr base::DType kTypes[] = {base::DType::u8,  base::DType::i8,  base::DType::u16, base::DType::i16,
                                  base::DType::u32, base::DType::i32, base::DType::i64};

class TokenKernels : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  // Exactly as many bytes as there are, from the heap: the address sanitizer sees any read outside. `shift`:
  // bytes before the first.
  std::vector<uint8_t> random_bytes(size_t size) {
    std::vector<uint8_t> bytes(size);
    for (uint8_t& byte : bytes)
      byte = static_cast<uint8_t>(random_() % 4 ? random_() : (random_() % 2 ? 0 : 255));
    return bytes;
  }

  std::mt19937 random_{7};
};

TEST_P(TokenKernels, WidenEveryLengthAndAlignment) {
  for (const base::DType from : kTypes)
    for (const base::DType to : {base::DType::i32, base::DType::i64}) {
      if (!widens(from, to)) continue;
      for (const size_t count : {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100, 257})
        for (const size_t shift : {0, 1, 2, 4})
          for (const bool past_caches : {false, true}) {
            const auto in = random_bytes(shift + count * base::dtype_bytes(from));
            const size_t bytes = count * base::dtype_bytes(to), gap = base::dtype_bytes(to) * (random_() % 5);
            std::vector<uint8_t> got(gap + bytes + 8, 0xAA), expected = got;
            widen(in.data() + shift, from, to, count, got.data() + gap, past_caches);
            scalar::widen(in.data() + shift, from, to, count, expected.data() + gap);
            ASSERT_EQ(got, expected) << base::dtype_name(from) << " " << base::dtype_name(to) << " " << count
                                     << " " << shift << past_caches;
          }
    }
}

TEST_P(TokenKernels, WideningKeepsTheNumber) {
  const int16_t signed_numbers[] = {-32768, -1, 0, 1, 32767};
  int64_t wide[5];
  widen(signed_numbers, base::DType::i16, base::DType::i64, 5, wide);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(wide[i], signed_numbers[i]);
  const uint32_t large[] = {0, 1, 0x80000000u, 0xFFFFFFFFu};
  widen(large, base::DType::u32, base::DType::i64, 4, wide);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(wide[i], int64_t{large[i]});
}

TEST_P(TokenKernels, FindAsTheScalarKernelsDo) {
  for (const base::DType type : kTypes)
    for (const size_t count : {0, 1, 5, 16, 63, 64, 65, 300})
      for (int round = 0; round < 20; ++round) {
        const auto in = random_bytes(count * base::dtype_bytes(type));
        int64_t key = static_cast<int64_t>(random_()) - 1000;
        if (count && round % 2)
          with_type(type, [&]<class T>(T value) {
            std::memcpy(&value, in.data() + random_() % count * sizeof(T), sizeof(T));
            key = static_cast<int64_t>(value);
          });
        const size_t begin = count ? random_() % count : 0;
        ASSERT_EQ(find_equal(in.data(), type, begin, count, key),
                  scalar::find_equal(in.data(), type, begin, count, key));
        const int64_t highest = key < 0 ? 0 : key;
        ASSERT_EQ(find_outside(in.data(), type, count, highest),
                  scalar::find_outside(in.data(), type, count, highest))
            << base::dtype_name(type) << " " << count << " " << highest;
      }
}

TEST_P(TokenKernels, TheLastElementIsLookedAt) {
  for (const base::DType type : kTypes)
    for (size_t count = 1; count < 150; ++count) {
      std::vector<uint8_t> in(count * base::dtype_bytes(type), 1);
      in.back() = 0x7F;
      int64_t last = 0;
      with_type(type, [&]<class T>(T value) {
        std::memcpy(&value, in.data() + (count - 1) * sizeof(T), sizeof(T));
        last = static_cast<int64_t>(value);
      });
      ASSERT_EQ(find_equal(in.data(), type, 0, count, last), count - 1);
      ASSERT_EQ(find_outside(in.data(), type, count, last - 1), count - 1);
      ASSERT_EQ(find_outside(in.data(), type, count, last), count);
    }
}

TEST(Widens, OnlyWhatHoldsEveryNumber) {
  EXPECT_TRUE(widens(base::DType::u16, base::DType::i32));
  EXPECT_FALSE(widens(base::DType::u32, base::DType::i32));
  EXPECT_FALSE(widens(base::DType::i64, base::DType::i64));
  EXPECT_FALSE(widens(base::DType::b8, base::DType::i64));
  EXPECT_FALSE(widens(base::DType::f32, base::DType::i64));
}

INSTANTIATE_TEST_SUITE_P(Targets, TokenKernels, testing::ValuesIn(test::instruction_sets()), test::set_name);

}  // namespace
}  // namespace millrace::collate
