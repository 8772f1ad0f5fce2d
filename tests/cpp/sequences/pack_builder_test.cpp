// PackBuilder: rows of ids, labels, positions and document numbers, as written by hand.
#include "sequences/pack_builder.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "millrace/error.h"

namespace millrace::sequences {
namespace {

using Numbers = std::vector<int64_t>;

const std::vector<uint16_t> kTokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 65535};
const Numbers kOffsets{0, 3, 3, 7}, kMore{0, 2};  // 1 2 3 | | 4 5 6 7 and, in a second array, 10 11
const std::vector<int32_t> kOther{10, 11, -12};

std::vector<TokenArray> arrays() {
  return {{reinterpret_cast<const uint8_t*>(kTokens.data()), base::DType::u16, 10, kOffsets, "first.bin"},
          {reinterpret_cast<const uint8_t*>(kOther.data()), base::DType::i32, 3, kMore, "second.bin"}};
}

struct Row {
  Numbers ids, labels, positions;
  std::vector<int32_t> documents;
  explicit Row(size_t length)
      : ids(length, 77), labels(length, 77), positions(length, 77), documents(length, 77) {}
  PackRow view() { return {ids.data(), labels.data(), positions.data(), documents.data()}; }
};

Row build(const std::vector<PackPiece>& pieces, const PackLayout& layout) {
  Row row(static_cast<size_t>(layout.length));
  PackBuilder(arrays(), layout).build(pieces, row.view());
  return row;
}

TEST(PackBuilder, TokensThatFollow) {
  const Row row = build({{2, 1, 2}, {0, 0, 3}, {3, 0, 2}}, {.length = 9, .pad = 50});
  EXPECT_EQ(row.ids, (Numbers{5, 6, 1, 2, 3, 10, 11, 50, 50}));
  EXPECT_EQ(row.labels, (Numbers{6, 7, 2, 3, -100, 11, -100, -100, -100}))
      << "7 follows 6 in its document, in another pack";
  EXPECT_EQ(row.positions, (Numbers{0, 1, 0, 1, 2, 0, 1, 0, 1}));
  EXPECT_EQ(row.documents, (std::vector<int32_t>{0, 0, 1, 1, 1, 2, 2, -1, -1}));
}

TEST(PackBuilder, Separators) {
  const PackLayout layout{.length = 8, .separator = 99};
  const Row row = build({{0, 0, 4}, {2, 0, 4}}, layout);
  EXPECT_EQ(row.ids, (Numbers{1, 2, 3, 99, 4, 5, 6, 7}));
  EXPECT_EQ(row.labels, (Numbers{2, 3, 99, -100, 5, 6, 7, 99}));
  const Row rest = build({{2, 4, 1}}, layout);
  EXPECT_EQ(rest.ids, (Numbers{99, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(rest.labels, Numbers(8, -100));
}

TEST(PackBuilder, ModelsThatShiftThemselves) {
  const Row row = build({{0, 0, 3}, {2, 1, 3}}, {.length = 7, .targets = PackTargets::same});
  EXPECT_EQ(row.labels, (Numbers{-100, 2, 3, -100, 6, 7, -100}));
}

TEST(PackBuilder, LabelsThatKnowNoDocuments) {
  PackLayout layout{.length = 7, .across_documents = true};
  EXPECT_EQ(build({{0, 0, 3}, {2, 0, 3}}, layout).labels, (Numbers{2, 3, 4, 5, 6, -100, -100}));
  layout.targets = PackTargets::same;
  EXPECT_EQ(build({{0, 0, 3}, {2, 0, 3}}, layout).labels, (Numbers{1, 2, 3, 4, 5, 6, -100}));
}

TEST(PackBuilder, EmptyRow) {
  const Row row = build({}, {.length = 2, .across_documents = true, .pad = 3});
  EXPECT_EQ(row.ids, (Numbers{3, 3}));
  EXPECT_EQ(row.labels, (Numbers{-100, -100}));
}

TEST(PackBuilder, Vocabulary) {
  const std::vector<TokenArray> wrong{
      {reinterpret_cast<const uint8_t*>(kOther.data()), base::DType::i32, 3, Numbers{0, 3}, "bad.bin"}};
  const Numbers offsets{0, 3};
  std::vector<TokenArray> bad = wrong;
  bad[0].offsets = offsets;
  const PackBuilder builder(bad, {.length = 4, .vocabulary = 12});
  Row row(4);
  builder.build(std::vector<PackPiece>{{0, 0, 1}}, row.view());
  for (const PackPiece& piece : {PackPiece{0, 0, 3}, PackPiece{0, 0, 2}}) {  // in the row, and as a label
    try {
      builder.build(std::vector<PackPiece>{piece}, row.view());
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::corrupt_data);
      EXPECT_NE(std::string(error.what()).find("bad.bin: token 2 of document 0 is -12"), std::string::npos)
          << error.what();
    }
  }
}

TEST(PackBuilder, AMappedFileIsCutShort) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer does not hand on a fault whose handler jumps";
#endif
  std::string path = testing::TempDir() + "packs_XXXXXX";
  const int file = mkstemp(path.data());
  ASSERT_GE(file, 0);
  constexpr size_t kBytes = 40960;
  ASSERT_EQ(ftruncate(file, kBytes), 0);
  void* const memory = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const Numbers offsets{0, 10000, 20480};
  const PackBuilder builder({{static_cast<const uint8_t*>(memory), base::DType::u16, 20480, offsets, path}},
                            {.length = 10480});
  Row row(10480);
  const std::vector<PackPiece> first{{0, 0, 2048}}, second{{1, 0, 10480}}, label{{0, 0, 4096}};
  builder.build(second, row.view());
  ASSERT_EQ(ftruncate(file, 8192), 0);
  builder.build(first, row.view());
  for (const auto& pieces : {second, label}) {
    try {
      builder.build(pieces, row.view());
      ADD_FAILURE() << "nothing was missed";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::corrupt_data);
      EXPECT_EQ(error.path(), path);
      EXPECT_GE(error.offset(), 8192);
    }
  }
  munmap(memory, kBytes);
  close(file);
  unlink(path.c_str());
}

TEST(PackBuilder, RefusesWhatCannotBe) {
  const auto refused = [](const Numbers& offsets, base::DType type = base::DType::u16) {
    const std::vector<TokenArray> array{
        {reinterpret_cast<const uint8_t*>(kTokens.data()), type, 10, offsets, "x.bin"}};
    EXPECT_THROW(PackBuilder(array, {.length = 4}), Error);
  };
  refused({});
  refused({0, 11});
  refused({-1, 3});
  refused({0, 5, 4});
  refused({0, 5}, base::DType::f32);
  const PackBuilder builder(arrays(), {.length = 4});
  Row row(4);
  for (const PackPiece& piece :
       {PackPiece{4, 0, 1}, PackPiece{-1, 0, 1}, PackPiece{0, 0, 4}, PackPiece{2, -1, 2}, PackPiece{1, 0, 1},
        PackPiece{2, 1, std::numeric_limits<int64_t>::max()}})
    EXPECT_THROW(builder.build(std::vector<PackPiece>{piece}, row.view()), Error);
  EXPECT_THROW(builder.build(std::vector<PackPiece>{{0, 0, 3}, {3, 0, 2}}, row.view()), Error)
      << "the row is too short";
}

template <class T>
void check_widening(base::DType type) {
  std::vector<uint8_t> bytes(1 + 5 * sizeof(T));
  const T elements[5] = {0, 1, 100, std::numeric_limits<T>::max(), std::numeric_limits<T>::min()};
  std::memcpy(bytes.data() + 1, elements, sizeof elements);
  const std::vector<int64_t> offsets{1, 5};
  const PackBuilder builder({{bytes.data() + 1, type, 5, offsets, "tokens"}}, {.length = 4});
  Row row(4);
  builder.build(std::vector<PackPiece>{{0, 0, 4}}, row.view());
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(row.ids[i], static_cast<int64_t>(elements[i + 1])) << base::dtype_name(type);
}

TEST(PackBuilder, TokensAreIntegersOfAnyWidthAnywhere) {
  check_widening<uint8_t>(base::DType::u8);
  check_widening<int8_t>(base::DType::i8);
  check_widening<uint16_t>(base::DType::u16);
  check_widening<int16_t>(base::DType::i16);
  check_widening<uint32_t>(base::DType::u32);
  check_widening<int32_t>(base::DType::i32);
  check_widening<uint64_t>(base::DType::u64);
  check_widening<int64_t>(base::DType::i64);
}

}  // namespace
}  // namespace millrace::sequences
