// Rows of arrays, in memory and in .npy files, through a Loader.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "../scratch_folder.h"
#include "errors_of.h"
#include "millrace/arrays.h"
#include "millrace/loader.h"

namespace millrace {
namespace {

std::vector<float> numbers(size_t count) {
  std::vector<float> result(count);
  std::iota(result.begin(), result.end(), 0.0f);
  return result;
}

std::string npy(const std::string& header_dict, const std::string& elements, char version = 1) {
  std::string head = header_dict;
  const size_t before = version == 1 ? 10 : 12;
  head += std::string(64 - (before + head.size() + 1) % 64, ' ') + "\n";
  std::string file = std::string("\x93NUMPY") + version + '\0';
  for (size_t i = 0; i < before - 8; ++i) file += static_cast<char>(head.size() >> (8 * i));
  return file + head + elements;
}

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

class Arrays : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, Arrays, ::testing::Values(0, 1, 4));

TEST_P(Arrays, RowsComeInOrderWithTheirFields) {
  const Dataset data = array_rows(
      {array_of<float>("x", numbers(60), {2, 3}), array_of<int64_t>("y", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})});
  EXPECT_EQ(data.size(), 10);
  EXPECT_EQ(data.fields()[0], (FieldSpec{"x", DType::f32, {2, 3}, false}));
  Loader loader(data, {.batch_size = 4, .threads = GetParam()});
  EXPECT_EQ(loader.size(), 3);
  int64_t next = 0;
  for (const Batch& batch : loader) {
    EXPECT_EQ(batch["x"].shape(), (std::vector<int64_t>{batch.size(), 2, 3}));
    const auto x = batch["x"].as<float>();
    const auto y = batch["y"].as<int64_t>();
    for (int64_t row = 0; row < batch.size(); ++row, ++next) {
      EXPECT_EQ(batch.indices()[static_cast<size_t>(row)], next);
      EXPECT_EQ(y[static_cast<size_t>(row)], next);
      for (int64_t i = 0; i < 6; ++i)
        ASSERT_EQ(x[static_cast<size_t>(row * 6 + i)], static_cast<float>(next * 6 + i));
    }
  }
  EXPECT_EQ(next, 10);
  EXPECT_EQ(loader.stats().samples, 10);
  EXPECT_EQ(loader.stats().batches, 3);
}

TEST_P(Arrays, LargeRowsAreLeasedAndOutliveTheLoader) {
  constexpr size_t kRow = 40'000;
  const Dataset data = array_rows({array_of<float>("x", numbers(20 * kRow), {static_cast<int64_t>(kRow)})});
  std::vector<Batch> kept;
  {
    Loader loader(data, {.batch_size = 3, .threads = GetParam()});
    for (const Batch& batch : loader) kept.push_back(batch);
  }
  ASSERT_EQ(kept.size(), 7u);
  size_t row = 0;
  for (const Batch& batch : kept)
    for (int64_t i = 0; i < batch.size(); ++i, ++row) {
      const auto x = batch["x"].as<float>().subspan(static_cast<size_t>(i) * kRow, kRow);
      ASSERT_EQ(x.front(), static_cast<float>(row * kRow));
      ASSERT_EQ(x.back(), static_cast<float>(row * kRow + kRow - 1));
    }
}

TEST_P(Arrays, RowsOfAnyStride) {
  const std::vector<float> table = numbers(6 * 5);  // read by columns, backwards
  Array columns{"column", DType::f32, {5, 6}, table.data() + 4, nullptr, {-4, 5 * 4}};
  Loader loader(array_rows({columns}), {.batch_size = 5, .threads = GetParam()});
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  for (size_t row = 0; row < 5; ++row)
    for (size_t i = 0; i < 6; ++i)
      ASSERT_EQ(batch["column"].as<float>()[row * 6 + i], table[i * 5 + 4 - row]);
  EXPECT_FALSE(loader.next(batch));
}

TEST_P(Arrays, NpyFilesAreMapped) {
  const ScratchFolder folder;
  const std::vector<float> values = numbers(12);
  for (const char version : {1, 2}) {
    const std::string dense = folder.write(
        "dense.npy",
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), }", bytes_of(values), version));
    const std::string turned = folder.write(
        "turned.npy",
        npy("{'descr': '<f4', 'fortran_order': True, 'shape': (4, 3), }", bytes_of(values), version));
    Loader loader(array_rows({open_npy(dense, "dense"), open_npy(turned, "turned")}),
                  {.batch_size = 4, .threads = GetParam()});
    Batch batch;
    ASSERT_TRUE(loader.next(batch));
    for (size_t row = 0; row < 4; ++row)
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(batch["dense"].as<float>()[row * 3 + i], values[row * 3 + i]);
        EXPECT_EQ(batch["turned"].as<float>()[row * 3 + i], values[i * 4 + row]);
      }
  }
}

TEST_P(Arrays, AFileThatIsCutShortIsAnErrorOfItsBatch) {
  const ScratchFolder folder;
  const std::string path = folder.write(
      "x.npy",
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (64, 1024), }", bytes_of(numbers(64 * 1024))));
  Loader loader(array_rows({open_npy(path, "x")}), {.batch_size = 8, .threads = GetParam(), .prefetch = 1});
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  ASSERT_EQ(::truncate(path.c_str(), 8 * 4096), 0);
  bool failed = false;
  for (int i = 0; i < 7; ++i) try {
      ASSERT_TRUE(loader.next(batch));
    } catch (const Error& error) {
      failed = true;
      EXPECT_EQ(error.kind(), ErrorKind::corrupt_data);
      EXPECT_NE(std::string(error.what()).find("x.npy"), std::string::npos) << error.what();
    }
  EXPECT_TRUE(failed);
  EXPECT_FALSE(loader.next(batch));
}

TEST(ArrayErrors, NameTheArrayAndTheRule) {
  const auto x = array_of<float>("x", numbers(6), {3});
  EXPECT_EQ(kind_of([] { array_rows({}); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([] { array_of<float>("x", numbers(6), {1 << 30, 1 << 30, 1 << 30}); }, "larger than"),
            ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([] { array_of<float>("x", numbers(6), {-3}); }, "side of -3"),
            ErrorKind::invalid_argument);
  // A row that takes no memory of its own may come as often as one likes; a batch of it is memory.
  const int64_t wide = int64_t{1} << 40, many = int64_t{1} << 24;
  Loader endless(array_rows({{"x", DType::u8, {many, wide}, x.data, x.owner, {0, 0}}}), {.batch_size = many});
  Batch batch;
  EXPECT_EQ(kind_of([&] { endless.next(batch); }, "larger than memory"), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([&] { array_rows({x, x}); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([&] { array_rows({x, array_of<float>("y", numbers(6), {2})}); }),
            ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([] { array_rows({{"x", DType::f32, {}, nullptr}}); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([] { array_rows({{"x", DType::f32, {3}, nullptr}}); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([] { array_rows({{"x", DType::f32, {-3}, nullptr}}); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([&] { array_rows({{"x", DType::f32, {2, 3}, x.data, x.owner, {4}}}); }),
            ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([&] { array_rows({{"", DType::f32, {2, 3}, x.data, x.owner}}); }),
            ErrorKind::invalid_argument);
}

TEST(ArrayErrors, FilesThatAreNoNpyFilesAreRefusedWithTheirName) {
  const ScratchFolder folder;
  EXPECT_EQ(kind_of([&] { open_npy(folder / "none.npy", "x"); }), ErrorKind::not_found);
  const std::vector<std::pair<std::string, std::string>> files{
      {"empty", ""},
      {"text", "this is a text"},
      {"version",
       npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), }", bytes_of(numbers(12)), 9)},
      {"header", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), }", "").substr(0, 40)},
      {"short", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 4), }", bytes_of(numbers(12)))},
      {"big_endian",
       npy("{'descr': '>f4', 'fortran_order': False, 'shape': (4, 3), }", bytes_of(numbers(12)))},
      {"objects", npy("{'descr': '|O', 'fortran_order': False, 'shape': (4, 3), }", bytes_of(numbers(12)))},
      {"parts",
       npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4, 3), }", bytes_of(numbers(12)))},
      {"no_shape", npy("{'descr': '<f4', 'fortran_order': False, }", bytes_of(numbers(12)))},
      {"bad_shape",
       npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4, x), }", bytes_of(numbers(12)))},
      {"scalar", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", bytes_of(numbers(12)))},
      {"order", npy("{'descr': '<f4', 'fortran_order': None, 'shape': (4, 3), }", bytes_of(numbers(12)))}};
  for (const auto& [name, content] : files) {
    const std::string path = folder.write(name + ".npy", content);
    try {
      open_npy(path, "x");
      ADD_FAILURE() << name << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::corrupt_data) << name;
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace millrace
