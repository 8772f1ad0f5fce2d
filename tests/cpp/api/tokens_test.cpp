// Token windows and packed documents, through a Loader.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <numeric>
#include <set>

#include "../scratch_folder.h"
#include "errors_of.h"
#include "millrace/loader.h"
#include "millrace/tokens.h"

namespace millrace {
namespace {

template <class T>
std::string ids(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
std::string ids(T first, size_t count) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), first);
  return ids(values);
}

std::string npy(const std::string& descr, const std::string& shape, const std::string& elements) {
  std::string head = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  head += std::string(64 - (10 + head.size() + 1) % 64, ' ') + "\n";
  std::string file = std::string("\x93NUMPY\x01") + '\0';
  file += static_cast<char>(head.size());
  file += static_cast<char>(head.size() >> 8);
  return file + head + elements;
}

using Rows = std::vector<std::vector<int64_t>>;

// The rows of a field over all of an epoch.
Rows rows_of(Loader& loader, const std::string& field) {
  Rows rows;
  for (const Batch& batch : loader) {
    const auto values = batch[field].as<int64_t>();
    const auto length = static_cast<size_t>(batch[field].shape()[1]);
    for (size_t at = 0; at < values.size(); at += length)
      rows.emplace_back(values.begin() + static_cast<int64_t>(at),
                        values.begin() + static_cast<int64_t>(at + length));
  }
  return rows;
}

class Tokens : public ::testing::TestWithParam<int> {
 protected:
  LoaderOptions options(int64_t batch_size) const {
    return {.batch_size = batch_size, .threads = GetParam()};
  }
};
INSTANTIATE_TEST_SUITE_P(Threads, Tokens, ::testing::Values(0, 1, 4));

TEST_P(Tokens, WindowsOfSeveralFilesDoNotCrossTheirBorders) {
  const ScratchFolder folder;
  const std::string raw = folder.write("a.bin", ids<uint16_t>(65530, 6) + ids<uint16_t>(0, 4));
  const std::string small = folder.write("b.bin", ids<uint16_t>(7, 4));  // is too short for one
  const std::string array = folder.write("c.npy", npy("<u2", "(9,)", ids<uint16_t>(100, 9)));
  const Dataset data = token_windows({raw, small, array}, {.length = 4});
  ASSERT_EQ(data.size(), 4);
  EXPECT_EQ(data.fields()[0], (FieldSpec{"input_ids", DType::i64, {4}, false}));
  EXPECT_EQ(data.fields()[1], (FieldSpec{"labels", DType::i64, {4}, false}));
  Loader loader(data, options(3));
  EXPECT_EQ(
      rows_of(loader, "input_ids"),
      (Rows{{65530, 65531, 65532, 65533}, {65534, 65535, 0, 1}, {100, 101, 102, 103}, {104, 105, 106, 107}}));
  EXPECT_EQ(
      rows_of(loader, "labels"),
      (Rows{{65531, 65532, 65533, 65534}, {65535, 0, 1, 2}, {101, 102, 103, 104}, {105, 106, 107, 108}}));
}

TEST_P(Tokens, WindowsOverlapByTheirStride) {
  const ScratchFolder folder;
  const std::string path = folder.write("a.bin", ids<int32_t>(-2, 9));
  Loader loader(token_windows({path}, {.length = 3, .stride = 2, .dtype = DType::i32}), options(2));
  EXPECT_EQ(rows_of(loader, "input_ids"), (Rows{{-2, -1, 0}, {0, 1, 2}, {2, 3, 4}}));
}

TEST_P(Tokens, HeadersOfLlmcAreNoTokens) {
  const ScratchFolder folder;
  std::vector<uint32_t> head(256);
  head[0] = 20240520, head[1] = 1, head[2] = 5;
  const std::string path = folder.write("a.bin", ids(head) + ids<uint16_t>(40, 5));
  Loader loader(token_windows({path}, {.length = 4, .dtype = DType::u8}), options(2));
  EXPECT_EQ(rows_of(loader, "input_ids"), (Rows{{40, 41, 42, 43}}));
}

TEST_P(Tokens, AnIdOutsideTheVocabularyIsItsBatchsError) {
  const ScratchFolder folder;
  const std::string path = folder.write("a.bin", ids<uint16_t>({0, 1, 2, 3, 4, 9, 5, 6, 7, 8, 8, 8, 8}));
  Loader loader(token_windows({path}, {.length = 4, .vocabulary = 9}), options(1));
  Batch batch;
  EXPECT_TRUE(loader.next(batch));
  EXPECT_EQ(kind_of([&] { loader.next(batch); }, path), ErrorKind::corrupt_data);
  EXPECT_TRUE(loader.next(batch));
  EXPECT_EQ(batch["input_ids"].as<int64_t>()[0], 7);
  EXPECT_FALSE(loader.next(batch));
}

TEST_P(Tokens, AFileThatWasCutShortIsAnErrorThatNamesIt) {
  const ScratchFolder folder;
  const std::string path = folder.write("a.bin", ids<uint16_t>(0, 32768));
  const Dataset windows = token_windows({path}, {.length = 1024});
  const Dataset packed = packed_documents(path, {0, 1000, 32768}, DType::u16, {.length = 32768});
  std::filesystem::resize_file(path, 100);
  for (const Dataset& data : {windows, packed}) {
    Loader loader(data, options(1));
    Batch batch;
    const auto all = [&] {
      for (int i = 0; i < 31; ++i) loader.next(batch);
    };
    EXPECT_EQ(kind_of(all, path), ErrorKind::corrupt_data);
  }
}

// Documents of 3, 5, 2 and 9 tokens, the last one longer than a row.
constexpr int64_t kDocuments[] = {0, 3, 8, 10, 19};

TEST_P(Tokens, DocumentsLieInRowsWithWhatBelongsToThem) {
  const ScratchFolder folder;
  const std::string path = folder.write("a.bin", ids<uint16_t>(10, 19));
  const Dataset data =
      packed_documents(path, {std::begin(kDocuments), std::end(kDocuments)}, DType::u16,
                       {.length = 8, .pad = 99, .positions = true, .documents = true, .vocabulary = 30});
  EXPECT_EQ(data.fields()[3], (FieldSpec{"document_ids", DType::i32, {8}, false}));
  Loader loader(data, options(2));
  std::multiset<int64_t> seen;
  for (const Batch& batch : loader) {
    const auto input = batch["input_ids"].as<int64_t>(), labels = batch["labels"].as<int64_t>();
    const auto positions = batch["position_ids"].as<int64_t>();
    const auto documents = batch["document_ids"].as<int32_t>();
    for (size_t i = 0; i < input.size(); ++i) {
      if (documents[i] < 0) {
        EXPECT_EQ(input[i], 99);
        EXPECT_EQ(labels[i], -100);
        continue;
      }
      seen.insert(input[i]);
      const int64_t next = input[i] + 1 - 10;
      const bool ends = std::find(std::begin(kDocuments), std::end(kDocuments), next) != std::end(kDocuments);
      EXPECT_EQ(labels[i], ends ? -100 : input[i] + 1) << input[i];
      if (i % 8 > 0 && documents[i] == documents[i - 1]) {
        EXPECT_EQ(positions[i], positions[i - 1] + 1);
      }
    }
  }
  EXPECT_EQ(seen.size(), 19u);
  EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 19u);
}

TEST_P(Tokens, RowsAreOthersInEachEpochAndAfterAResumeTheSame) {
  const ScratchFolder folder;
  const std::string path = folder.write("a.bin", ids<uint16_t>(0, 600));
  std::vector<int64_t> offsets;
  for (int64_t at = 0; at <= 600; at += 5) offsets.push_back(at);
  const Dataset data =
      packed_documents(path, offsets, DType::u16, {.length = 16, .separator = 600, .seed = 3});
  Loader loader(data, options(4));
  const Rows first = rows_of(loader, "input_ids"), second = rows_of(loader, "input_ids");
  EXPECT_NE(first, second);
  EXPECT_EQ(first.size(), second.size());

  Loader broken(data, options(4));
  EXPECT_EQ(rows_of(broken, "input_ids"), first);
  Batch batch;
  ASSERT_TRUE(broken.next(batch));
  Loader resumed(data, options(4));
  resumed.load_state(broken.state());
  EXPECT_EQ(rows_of(resumed, "input_ids"), Rows(second.begin() + 4, second.end()));
}

TEST_P(Tokens, RowsWithAWrongIdCanBeLeftOut) {
  const ScratchFolder folder;
  const std::string path = folder.write("a.bin", ids<uint16_t>({1, 2, 3, 4, 500, 6, 7, 8}));
  LoaderOptions skipping = options(1);
  skipping.on_error = OnError::skip;
  Loader loader(packed_documents(path, {0, 4, 8}, DType::u16, {.length = 4, .vocabulary = 10}), skipping);
  EXPECT_EQ(rows_of(loader, "input_ids"), (Rows{{1, 2, 3, 4}}));
  EXPECT_EQ(loader.stats().left_out, 1);
  EXPECT_EQ(loader.stats().errors.at(0).path, path);
}

TEST(TokenErrors, OfFiles) {
  const ScratchFolder folder;
  const auto opening = [&](const std::string& path, DType dtype = DType::u16) {
    return [path, dtype] { token_windows({path}, {.length = 4, .dtype = dtype}); };
  };
  EXPECT_EQ(kind_of(opening(folder / "none.bin"), "none.bin"), ErrorKind::not_found);
  EXPECT_EQ(kind_of(opening(folder.write("empty.bin")), "is empty"), ErrorKind::corrupt_data);
  EXPECT_EQ(kind_of(opening(folder.write("odd.bin", "123")), "no whole number"), ErrorKind::corrupt_data);
  EXPECT_EQ(kind_of(opening(folder.write("a.bin.zst", "12")), "compressed"), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of(opening(folder.write("f.bin", "12345678"), DType::f32), "float32"),
            ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of(opening(folder.write("f.npy", npy("<f4", "(2,)", "12345678"))), "float32"),
            ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of(opening(folder.write("2.npy", npy("<u2", "(2, 2)", "12345678"))), "2 dimensions"),
            ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of(opening(folder.write("s.npy", npy("<u2", "(5,)", "12345678"))), "promises"),
            ErrorKind::corrupt_data);
  EXPECT_EQ(kind_of(opening(folder.write("short.bin", ids<uint16_t>(0, 4))), "no window"),
            ErrorKind::invalid_argument);
  std::vector<uint32_t> head(256);
  head[0] = 20240520, head[1] = 1, head[2] = 6;
  EXPECT_EQ(kind_of(opening(folder.write("cut.bin", ids(head) + "12345678")), "cut short"),
            ErrorKind::corrupt_data);
}

TEST(TokenErrors, OfOptions) {
  const ScratchFolder folder;
  const std::string path = folder.write("a.bin", ids<uint16_t>(0, 20));
  const std::string wide = folder.write("b.npy", npy("<i8", "(9,)", ids<int64_t>(0, 9)));
  const ErrorKind invalid = ErrorKind::invalid_argument;
  EXPECT_EQ(kind_of([&] { token_windows({}, {.length = 4}); }, "paths is empty"), invalid);
  EXPECT_EQ(kind_of([&] { token_windows({path}, {}); }, "length is 0"), invalid);
  EXPECT_EQ(kind_of([&] { token_windows({path}, {.length = 4, .stride = 0}); }, "stride is 0"), invalid);
  EXPECT_EQ(kind_of([&] { token_windows({path}, {.length = 4, .vocabulary = 0}); }, "vocabulary"), invalid);
  EXPECT_EQ(token_windows({path}, {.length = 4, .stride = INT64_MAX}).size(), 1);
  EXPECT_EQ(kind_of([&] { token_windows({path}, {.length = INT64_MAX}); }, "smaller length"), invalid);
  EXPECT_EQ(kind_of([&] { token_windows({path, wide}, {.length = 4}); }, "int64"), invalid);
  const auto packing = [&](std::vector<int64_t> offsets, PackingOptions options) {
    return [=] { packed_documents(path, offsets, DType::u16, options); };
  };
  EXPECT_EQ(kind_of(packing({0, 20}, {}), "1 "), invalid);
  EXPECT_EQ(kind_of(packing({0, 20}, {.length = 8, .vocabulary = 0}), "vocabulary"), invalid);
  EXPECT_EQ(kind_of(packing({}, {.length = 8}), "offsets"), invalid);
  EXPECT_EQ(kind_of(packing({0, 9, 5}, {.length = 8}), "never fall"), invalid);
  EXPECT_EQ(kind_of(packing({0, 21}, {.length = 8}), "outside"), invalid);
}

}  // namespace
}  // namespace millrace
