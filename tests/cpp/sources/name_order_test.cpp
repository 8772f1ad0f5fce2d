// sort_names: the order of Python's sorted() over os.fsdecode()d names.
#include "sources/name_order.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace millrace::sources {
namespace {

using Names = std::vector<std::string>;

void expect_order(const Names& wanted) {
  Names names = wanted;
  std::reverse(names.begin(), names.end());
  sort_names(names);
  EXPECT_EQ(names, wanted);
}

TEST(NameOrder, Ascii) { expect_order({"", "10", "9", "A", "Z", "_", "a", "a-b", "a.b", "a/b", "ab"}); }

TEST(NameOrder, ValidUtf8SortsLikeItsBytes) {
  // U+00E9, U+4E2D, U+FFFD, U+1F600
  expect_order({"z", "\xC3\xA9", "\xE4\xB8\xAD", "\xEF\xBF\xBD", "\xF0\x9F\x98\x80"});
}

TEST(NameOrder, StrayBytesAreLoneSurrogates) {
  // U+D7FF, then the bytes that are no UTF-8 as U+DC80 .. U+DCFF, then U+E000.
  expect_order({"\xED\x9F\xBF", "\x80", "\xC3", "\xC3(", "\xFF", "\xEE\x80\x80"});
}

TEST(NameOrder, SequencesThatOnlyLookLikeUtf8) {
  // Overlong '/', an encoded surrogate, and a value above U+10FFFF: byte by byte, all behind U+D7FF and
  // before U+E000.
  expect_order({"\xED\x9F\xBF", "\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF0\x82\x82\xAC",
                "\xF4\x90\x80\x80", "\xEE\x80\x80"});
}

}  // namespace
}  // namespace millrace::sources
