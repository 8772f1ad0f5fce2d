// KeyedWords: words that were noted from millrace.datasets.webdataset.flow.Draws in Python.
#include "samplers/keyed_words.h"

#include <gtest/gtest.h>

#include <string>

#include "millrace/error.h"

namespace millrace::samplers {
namespace {

TEST(KeyedWords, AreThoseOfPythonsStreams) {
  KeyedWords words("(5, 0, 0, 1, 0, 1, 'shuffle', None)");
  EXPECT_EQ(words.word(0), 14451311293844680674u);
  EXPECT_EQ(words.word(5000), 5585285221008135436u);
  EXPECT_EQ(words.word(1), 1229114604446605156u);  // backwards as well
  EXPECT_EQ(words.word(1024), 13553169272316833630u);
  EXPECT_EQ(words.below(7, 1000), 284u);
  EXPECT_THROW(KeyedWords(std::string(129, 'x')), Error);
}

}  // namespace
}  // namespace millrace::samplers
