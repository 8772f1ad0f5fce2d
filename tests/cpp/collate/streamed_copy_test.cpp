// Every instruction set that this machine has copies every length and alignment, and touches nothing else.
#include "collate/streamed_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "hwy/highway.h"
#include "../instruction_sets.h"

namespace millrace::collate {
namespace {

class StreamedCopy : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(StreamedCopy, EveryLengthAndAlignment) {
  std::mt19937 random{7};
  for (const size_t size : {0, 1, 15, 16, 63, 64, 65, 127, 128, 255, 256, 257, 300, 511, 512, 1000, 100'003})
    for (const size_t shift : {0, 1, 8, 31})
      for (const size_t gap : {0, 1, 16, 37, 64}) {
        std::vector<uint8_t> in(shift + size);  // exactly: the address sanitizer sees any read outside
        for (uint8_t& byte : in) byte = static_cast<uint8_t>(random());
        std::vector<uint8_t> got(gap + size + 8, 0xAA), expected = got;
        std::copy(in.begin() + shift, in.end(), expected.begin() + gap);
        streamed_copy(in.data() + shift, size, got.data() + gap);
        ASSERT_EQ(got, expected) << size << " " << shift << " " << gap;
      }
}

TEST_P(StreamedCopy, OfNothingTakesNullPointers) { streamed_copy(nullptr, 0, nullptr); }

INSTANTIATE_TEST_SUITE_P(Targets, StreamedCopy, testing::ValuesIn(test::instruction_sets()), test::set_name);

}  // namespace
}  // namespace millrace::collate
