#include "core/stream_copy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

namespace millrace::core {
namespace {

TEST(StreamCopy, CopiesEveryLengthFromAndToEveryAlignmentAndNothingElse) {
  std::vector<uint8_t> source(1000), target(1000);
  std::iota(source.begin(), source.end(), uint8_t{1});
  for (size_t from : {0, 1, 7, 16})
    for (size_t to : {0, 1, 15, 63})
      for (size_t bytes : {0, 1, 16, 63, 64, 65, 127, 128, 200, 700}) {
        std::fill(target.begin(), target.end(), uint8_t{0xAA});
        copy_to_memory(target.data() + to, source.data() + from, bytes);
        for (size_t i = 0; i < target.size(); ++i)
          ASSERT_EQ(target[i], i >= to && i < to + bytes ? source[from + i - to] : 0xAA)
              << from << " " << to << " " << bytes << " " << i;
      }
}

}  // namespace
}  // namespace millrace::core
