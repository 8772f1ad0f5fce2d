// MersenneTwister: the words of the standard library's, whichever way they are asked for.
#include "samplers/mersenne_twister.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace millrace::samplers {
namespace {

TEST(MersenneTwister, TheTenThousandthWordIsTheStandards) {
  MersenneTwister twister(5489);
  twister.discard(9999);
  EXPECT_EQ(twister(), 4123659995u);
}

TEST(MersenneTwister, WordsAreTheStandardLibrarys) {
  for (const uint32_t seed : {0u, 1u, 5489u, 0xFFFFFFFFu}) {
    MersenneTwister twister(seed);
    std::mt19937 expected(seed);
    std::mt19937 random(seed + 1);
    for (int turn = 0; turn < 300; ++turn) {
      const size_t count = random() % (turn % 10 == 0 ? 2000 : 70);
      switch (random() % 3) {
        case 0:
          for (size_t i = 0; i < count; ++i) ASSERT_EQ(twister(), expected());
          break;
        case 1: {
          std::vector<uint32_t> words(count);
          twister.fill(words);
          for (const uint32_t word : words) ASSERT_EQ(word, expected());
          break;
        }
        default: twister.discard(count); expected.discard(count);
      }
      if (turn % 50 == 0) twister = MersenneTwister(twister.words(), twister.next());
    }
  }
}

TEST(MersenneTwister, EndsOfBlocks) {
  for (const uint64_t words : {623, 624, 625, 1247, 1248, 1249}) {
    MersenneTwister passed_over(9), drawn(9);
    std::mt19937 expected(9);
    passed_over.discard(words);
    for (uint64_t i = 0; i < words; ++i) drawn();
    EXPECT_EQ(passed_over, drawn) << words;  // the next block is made when a word of it is asked for
    expected.discard(words);
    EXPECT_EQ(passed_over(), expected()) << words;
  }
}

}  // namespace
}  // namespace millrace::samplers
