// JsonReader: what it takes is in the columns as the text has it; what it refuses, and that it goes on behind
// that.
#include "json/json_reader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <thread>

#include "millrace/error.h"

namespace millrace::json {
namespace {

using Fields = std::vector<JsonField>;

JsonField number(std::vector<std::string> path, base::DType type, std::vector<int64_t> shape = {}) {
  return {std::move(path), JsonKind::number, type, std::move(shape), std::nullopt};
}

// A reader, its columns, and rows for numbers. Lines lie in a buffer of exactly their size and padding, for
// the sanitizers.
struct Table {
  explicit Table(Fields wanted, bool closed = false)
      : fields(std::make_shared<const Fields>(std::move(wanted))), reader(fields, closed),
        columns(fields->size()) {
    memory.resize(fields->size());
    for (size_t i = 0; i < fields->size(); ++i) {
      if ((*fields)[i].kind == JsonKind::number) memory[i].resize(json_row_bytes((*fields)[i]) * 4);
      columns[i].rows = memory[i].data();
      columns[i].reset(4);
    }
  }

  bool read(const std::string& line, size_t row = 0) {
    const std::unique_ptr<uint8_t[]> exact(new uint8_t[line.size() + JsonReader::kPadding]);
    std::memcpy(exact.get(), line.data(), line.size());
    std::memset(exact.get() + line.size(), '7', JsonReader::kPadding);  // as another line would be there
    return reader.read(exact.get(), line.size(), row, columns);
  }

  template <class T>
  T at(size_t field, size_t row = 0, size_t element = 0) const {
    T value;
    std::memcpy(&value, memory[field].data() + row * json_row_bytes((*fields)[field]) + element * sizeof(T),
                sizeof value);
    return value;
  }

  std::string bytes(size_t field, size_t row = 0) const {
    const JsonColumn::Value& value = columns[field].values[row];
    return {reinterpret_cast<const char*>(columns[field].bytes.data()) + value.begin, value.bytes};
  }

  std::shared_ptr<const Fields> fields;
  JsonReader reader;
  std::vector<JsonColumn> columns;
  std::vector<std::vector<uint8_t>> memory;
};

TEST(JsonReader, NumbersOfEveryType) {
  Table table({number({"a"}, base::DType::i64), number({"b"}, base::DType::f32),
               number({"c"}, base::DType::b8), number({"d"}, base::DType::u8),
               number({"e"}, base::DType::f64), number({"f"}, base::DType::i32),
               number({"g"}, base::DType::i8), number({"h"}, base::DType::i16)});
  ASSERT_TRUE(
      table.read(R"({"h":-32768,"g":127,"f":-5,"e":0.1,"d":255,"c":true,"b":1.5,"a":-9223372036854775808})"
                 "\r\n\n",
                 1));
  EXPECT_EQ(table.at<int64_t>(0, 1), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(table.at<float>(1, 1), 1.5f);
  EXPECT_EQ(table.at<uint8_t>(2, 1), 1);
  EXPECT_EQ(table.at<uint8_t>(3, 1), 255);
  EXPECT_EQ(table.at<double>(4, 1), 0.1);
  EXPECT_EQ(table.at<int32_t>(5, 1), -5);
  EXPECT_EQ(table.at<int8_t>(6, 1), 127);
  EXPECT_EQ(table.at<int16_t>(7, 1), -32768);
}

TEST(JsonReader, AnIntIsAFloatAndNothingElseIsAnything) {
  Table table({number({"a"}, base::DType::f64)});
  EXPECT_TRUE(table.read(R"({"a": 18446744073709551615})"));
  EXPECT_EQ(table.at<double>(0), 18446744073709551615.0);
  EXPECT_TRUE(table.read(R"({"a": -3})"));
  EXPECT_EQ(table.at<double>(0), -3.0);
  for (const char* line : {R"({"a": true})", R"({"a": "1"})", R"({"a": null})", R"({"a": [1]})",
                           R"({"a": {}})", R"({"b": 1})", "[1]", "1"})
    EXPECT_FALSE(table.read(line)) << line;
  Table ints({number({"a"}, base::DType::i32)});
  for (const char* line : {R"({"a": 1.0})", R"({"a": 1e2})", R"({"a": 2147483648})",
                           R"({"a": 9223372036854775808})", R"({"a": false})"})
    EXPECT_FALSE(ints.read(line)) << line;
  Table bools({number({"a"}, base::DType::b8)});
  EXPECT_FALSE(bools.read(R"({"a": 1})"));
}

TEST(JsonReader, Shapes) {
  Table table({number({"a"}, base::DType::i16, {2, 3}),
               {{"b"}, JsonKind::list, base::DType::f32, {}, {}},
               {{"c"}, JsonKind::list, base::DType::i32, {2}, {}}});
  ASSERT_TRUE(table.read(R"({"a": [[1,2,3],[4,5,6]], "b": [0.5, 2], "c": [[1,2],[3,4],[5,6]]})"));
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(table.at<int16_t>(0, 0, i), static_cast<int16_t>(i + 1));
  EXPECT_EQ(table.bytes(1).size(), 8u);
  EXPECT_EQ(table.bytes(2).size(), 24u);
  ASSERT_TRUE(table.read(R"({"a": [[1,2,3],[4,5,6]], "b": [], "c": []})", 3));
  EXPECT_EQ(table.bytes(1, 3).size(), 0u);
  for (const char* a : {"[[1,2,3],[4,5]]", "[[1,2,3],[4,5,6,7]]", "[[1,2,3]]", "[1,2,3,4,5,6]",
                        "[[1,2,3],[4,5,6],[7,8,9]]", "[[1,2,3],4]"})
    EXPECT_FALSE(table.read(std::string(R"({"b": [], "c": [], "a": )") + a + "}")) << a;
}

TEST(JsonReader, PathsAndEqualKeys) {
  Table table({number({"user", "id"}, base::DType::i64),
               number({"x"}, base::DType::i64),
               {{"user"}, JsonKind::object, {}, {}, {}}});
  ASSERT_TRUE(table.read(R"({"x": 1, "user": {"id": 2, "id": 3}, "x": 4})"));
  EXPECT_EQ(table.at<int64_t>(0), 3);
  EXPECT_EQ(table.at<int64_t>(1), 4);
  EXPECT_FALSE(table.read(R"({"x": 1, "user": {"id": 2}, "user": {}})"));  // the last user has no id
  EXPECT_FALSE(table.read(R"({"x": 1, "user": {"id": 2}, "user": 5})"));
  EXPECT_FALSE(table.read(R"({"x": 1, "x": null, "user": {"id": 2}})"));
}

TEST(JsonReader, AClosedOneRefusesOtherKeys) {
  Table table({number({"user", "id"}, base::DType::i64), {{"any"}, JsonKind::object, {}, {}, {}}}, true);
  for (const char* line : {R"({"user": {"id": 1}, "any": {"other": 1}})", R"({"any": 1, "user": {"id": 1}})",
                           R"({"any": 1, "user": {"id": 1}, "any": 2, "user": {"\u0069d": 1}})"})
    EXPECT_TRUE(table.read(line)) << line;
  for (const char* line :
       {R"({"user": {"id": 1}, "any": 1, "other": 1})", R"({"": null, "user": {"id": 1}, "any": 1})",
        R"({"user": {"id": 1, "other": 1}, "any": 1})", R"({"user": {"id": 1}, "any": 1, "an": 1})"})
    EXPECT_FALSE(table.read(line)) << line;
}

TEST(JsonReader, TextsAndWhatIsInTheirPlace) {
  Table table({{{"t"}, JsonKind::text, {}, {}, std::vector<uint8_t>{'n', 'o'}}});
  ASSERT_TRUE(table.read(R"({"t": "a\u00e4\n\ud83d\ude00"})"));
  EXPECT_EQ(table.bytes(0), "a\xC3\xA4\n\xF0\x9F\x98\x80");
  EXPECT_FALSE(table.columns[0].values[0].ascii);
  ASSERT_TRUE(table.read(R"({"t": "plain \u0000"})", 1));
  EXPECT_EQ(table.bytes(0, 1), std::string("plain \0", 7));
  EXPECT_TRUE(table.columns[0].values[1].ascii);
  ASSERT_TRUE(table.read(R"({"u": 1})", 2));
  EXPECT_EQ(table.bytes(0, 2), "no");
  ASSERT_TRUE(table.read(R"({"t": null})", 3));
  EXPECT_EQ(table.bytes(0, 3), "no");
  EXPECT_FALSE(table.read(R"({"t": 1})"));
}

TEST(JsonReader, ObjectsAreEvents) {
  Table table({{{}, JsonKind::object, {}, {}, {}}});
  ASSERT_TRUE(table.read(R"( {"a": [null, true, false], "b": {}} )"));
  const auto eight = [](uint64_t n) { return std::string(reinterpret_cast<const char*>(&n), 8); };
  EXPECT_EQ(table.bytes(0),
            "{" + eight(2) + "s" + eight(1) + "a[" + eight(3) + "ntfs" + eight(1) + "b{" + eight(0));
  ASSERT_TRUE(table.read("-1", 1));
  EXPECT_EQ(table.bytes(0, 1), "i" + eight(static_cast<uint64_t>(-1)));
  ASSERT_TRUE(table.read("18446744073709551615", 2));
  EXPECT_EQ(table.bytes(0, 2), "u" + eight(std::numeric_limits<uint64_t>::max()));
}

TEST(JsonReader, RefusesAndGoesOn) {
  Table table({{{}, JsonKind::object, {}, {}, {}}});
  const std::string deep(JsonReader::kMostDepth + 1, '['), bomb(1'000'000, '[');
  for (const std::string& line :
       {std::string(""), std::string("{"), std::string("{\"a\":1"), std::string("NaN"),
        std::string("-Infinity"), std::string("18446744073709551616"), std::string("1e999"),
        std::string("01"), std::string("'a'"), std::string("\"\xFF\""), std::string("\"\x01\""),
        std::string("\"\\ud800\""), std::string("1 2"), std::string("\"\xED\xA0\x80\""),
        std::string("{\"a\":1}}"), deep, bomb}) {
    EXPECT_FALSE(table.read(line)) << line.substr(0, 40);
    EXPECT_TRUE(table.read("{}"));
  }
}

TEST(JsonReader, LongLines) {
  Table table({{{"t"}, JsonKind::text, {}, {}, {}}});
  for (const size_t size : {10u, 5000u, 3'000'000u, 100u}) {
    const std::string text(size, 'x');
    ASSERT_TRUE(table.read("{\"t\": \"" + text + "\"}", 0));
    EXPECT_EQ(table.columns[0].values[0].bytes, size);
  }
}

TEST(JsonReader, ReadersOfOneSchemaAtOnce) {
  const auto fields = std::make_shared<const Fields>(Fields{number({"a"}, base::DType::i64)});
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t)
    threads.emplace_back([&fields, t] {
      JsonReader reader(fields);
      std::vector<JsonColumn> columns(1);
      int64_t value = -1;
      columns[0].rows = reinterpret_cast<uint8_t*>(&value);
      for (int64_t i = 0; i < 200; ++i) {
        std::string line = "{\"a\": " + std::to_string(i * 10 + t) + "}";
        const size_t size = line.size();
        line.resize(size + JsonReader::kPadding);
        EXPECT_TRUE(reader.read(reinterpret_cast<const uint8_t*>(line.data()), size, 0, columns));
        EXPECT_EQ(value, i * 10 + t);
      }
    });
  for (auto& thread : threads) thread.join();
}

TEST(JsonReader, TypesAndDefaultsThatMeanNothing) {
  EXPECT_THROW(Table({number({"a"}, base::DType::c64)}), Error);
  JsonField wrong = number({"a"}, base::DType::i64);
  wrong.instead = std::vector<uint8_t>(4);
  EXPECT_THROW(Table({wrong}), Error);
}

}  // namespace
}  // namespace millrace::json
