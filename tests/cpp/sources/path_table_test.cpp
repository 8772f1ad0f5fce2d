// PathTable: what goes in comes out, with the prefix and across tables.
#include "sources/path_table.h"

#include <gtest/gtest.h>

#include "millrace/error.h"

namespace millrace::sources {
namespace {

TEST(PathTable, KeepsStringsApart) {
  PathTable table;
  table.append("a/1.jpg");
  table.append("");
  table.append(std::string_view("\xff\0b", 3));
  table.set_prefix("/data/");
  ASSERT_EQ(table.size(), 3u);
  EXPECT_EQ(table.path(0), "/data/a/1.jpg");
  EXPECT_EQ(table.tail(0), "a/1.jpg");
  EXPECT_EQ(table.path(1), "/data/");
  EXPECT_EQ(table.tail(2), std::string_view("\xff\0b", 3));
  EXPECT_THROW(table.path(3), Error);
  EXPECT_THROW(PathTable().tail(0), Error);
}

TEST(PathTable, AppendsAnotherTable) {
  PathTable first, second;
  first.append("x");
  second.set_prefix("ignored");
  second.append("yy");
  second.append("zzz");
  first.append(second);
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(first.path(1), "yy");
  EXPECT_EQ(first.path(2), "zzz");
}

TEST(PathTable, IsCompact) {
  PathTable table;
  table.reserve(1000, 10'000);
  for (int i = 0; i < 1000; ++i) table.append("0123456789");
  EXPECT_LE(table.memory_bytes(), 1000 * (10 + 8) + 64u);
}

}  // namespace
}  // namespace millrace::sources
