// Value: documents in, text out as Python writes it.
#include "json/json_value.h"

#include <gtest/gtest.h>

#include "millrace/error.h"

namespace millrace::json {
namespace {

const char* const kPythons =
    R"({"b": [1, -2, 9223372036854775808, 1.5, 1e-05, 1e+16, 0.1, 1e+22, -0.0, true, null], )"
    R"("a": "\u00e9\ud83d\ude00\"\\\n\u007f\u0001", "\u00fc": {}})";
const char* const kSorted =
    R"({"a":"\u00e9\ud83d\ude00\"\\\n\u007f\u0001",)"
    R"("b":[1,-2,9223372036854775808,1.5,1e-05,1e+16,0.1,1e+22,-0.0,true,null],"\u00fc":{}})";

TEST(Value, IsWrittenAsPythonWritesIt) {
  const Value value = Value::parse(kPythons);
  EXPECT_EQ(value.written(), kPythons);
  EXPECT_EQ(value.written(Value::Style::canonical), kSorted);
  EXPECT_EQ(Value::parse(kSorted).written(Value::Style::canonical), kSorted);
  EXPECT_EQ(*value.find("a")->text(), "\u00e9\U0001f600\"\\\n\x7f\x01");
}

TEST(Value, EntriesAreFoundSetAndErased) {
  Value value;
  value.set("x", 1);
  value.set("y", "two");
  value.set("x", uint64_t{3});
  EXPECT_EQ(value.written(), R"({"x": 3, "y": "two"})");
  EXPECT_EQ(value, Value::parse(R"({"x": 3, "y": "two"})"));
  value.erase("x");
  EXPECT_EQ(value.find("x"), nullptr);
  EXPECT_EQ(Value(1).find("x"), nullptr);
}

TEST(Value, RefusesWhatIsNoDocument) {
  for (const char* text : {"", " ", "{", "{\"a\": 1,}", "[1] 2", "nul", "\"\xff\""})
    EXPECT_THROW(Value::parse(text), Error) << text;
  const std::string deep(1000, '[');
  EXPECT_THROW(Value::parse(deep + std::string(1000, ']')), Error);
}

}  // namespace
}  // namespace millrace::json
