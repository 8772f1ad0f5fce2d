// TorchGenerator: the draws and the states of torch's own, which were noted from torch 2.13.
#include "samplers/torch_generator.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "millrace/error.h"
#include "samplers/random_permutation.h"

namespace millrace::samplers {
namespace {

uint32_t crc32(const std::vector<uint8_t>& bytes) {
  uint32_t sum = 0xFFFFFFFFu;
  for (const uint8_t byte : bytes) {
    sum ^= byte;
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0u);
  }
  return ~sum;
}

std::vector<int64_t> permutation(TorchGenerator& generator, int64_t n) {
  RandomPermutation drawn(n, generator.engine());
  generator.discard(RandomPermutation::words(n));
  std::vector<int64_t> positions(static_cast<size_t>(n)), out(positions.size());
  std::iota(positions.begin(), positions.end(), 0);
  drawn.at(positions, out);
  return out;
}

TEST(TorchGenerator, DrawsAndStatesAreTorchs) {
  TorchGenerator generator(1234567890123456789u);
  EXPECT_EQ(crc32(generator.state()), 658490050u);
  EXPECT_EQ(generator.base_seed(), 1410873935358878458);
  EXPECT_EQ(crc32(generator.state()), 2727696187u);
  EXPECT_EQ(permutation(generator, 10), (std::vector<int64_t>{4, 5, 8, 2, 7, 3, 1, 9, 0, 6}));
  EXPECT_EQ(crc32(generator.state()), 464502195u);
  permutation(generator, 700);  // more words than a block has
  EXPECT_EQ(crc32(generator.state()), 2744312397u);
  EXPECT_EQ(generator.base_seed(), 1237401113163542912);

  TorchGenerator at_the_end(5);  // of a block
  permutation(at_the_end, 625);
  EXPECT_EQ(crc32(at_the_end.state()), 1222304675u);
}

TEST(TorchGenerator, GoesBackToAnyState) {
  for (const int64_t words : {0, 1, 623, 624, 625, 2000}) {
    TorchGenerator generator(7), other(8);
    generator.discard(words);
    other.set_state(generator.state());
    EXPECT_EQ(other.state(), generator.state()) << words;
    EXPECT_EQ(other.base_seed(), generator.base_seed()) << words;
    EXPECT_EQ(other.state(), generator.state()) << words;
  }
}

TEST(TorchGenerator, RefusesWhatIsNoState) {
  TorchGenerator generator(7);
  const std::vector<uint8_t> before = generator.state();
  std::vector<uint8_t> wrong = before;
  wrong[8] = 0;  // left
  EXPECT_THROW(generator.set_state(wrong), Error);
  wrong = before;
  wrong[24 + 7] = 1;  // a word of more than 32 bits
  EXPECT_THROW(generator.set_state(wrong), Error);
  wrong = before;
  wrong.pop_back();
  EXPECT_THROW(generator.set_state(wrong), Error);
  EXPECT_EQ(generator.state(), before);
}

}  // namespace
}  // namespace millrace::samplers
