// Rows widened, checked and with targets left out; files that are cut short, also under the engine's threads.
#include "collate/row_maker.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "collate/gather_engine.h"
#include "collate/token_scan.h"
#include "millrace/error.h"

namespace millrace::collate {
namespace {

std::vector<int64_t> made(const RowMaker& maker, const std::vector<uint16_t>& numbers,
                          const std::vector<size_t>& starts) {
  std::vector<const uint8_t*> rows;
  for (const size_t start : starts) rows.push_back(reinterpret_cast<const uint8_t*>(numbers.data() + start));
  std::vector<int64_t> out(starts.size() * maker.made_bytes() / 8);
  maker.make(rows, reinterpret_cast<uint8_t*>(out.data()), false);
  return out;
}

RowMakerOptions windows_of(size_t elements) {
  RowMakerOptions options;
  options.stored = base::DType::u16;
  options.elements = elements;
  return options;
}

TEST(RowMaker, WindowsOverlap) {
  std::vector<uint16_t> numbers(100);
  std::iota(numbers.begin(), numbers.end(), uint16_t{65'400});
  EXPECT_EQ(made(RowMaker(windows_of(3)), numbers, {5, 6, 0}),
            (std::vector<int64_t>{65405, 65406, 65407, 65406, 65407, 65408, 65400, 65401, 65402}));
}

TEST(RowMaker, TargetsBehindASeparatorAreLeftOut) {
  const std::vector<uint16_t> numbers{9, 1, 2, 9, 3, 9, 9, 4};
  RowMakerOptions options = windows_of(7);
  options.excluded = Exclusion{9, 1, -100};
  EXPECT_EQ(made(RowMaker(options), numbers, {1}), (std::vector<int64_t>{-100, 2, 9, -100, 9, -100, -100}));
  options.excluded = Exclusion{9, 0, -5};
  EXPECT_EQ(made(RowMaker(options), numbers, {1}), (std::vector<int64_t>{1, 2, -5, 3, -5, -5, 4}));
}

TEST(RowMaker, TargetsAtAFilesBordersAreLeftOut) {
  const std::vector<uint16_t> numbers{0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<int64_t> borders{0, 2, 3, 6, 7};
  const auto* begin = reinterpret_cast<const uint8_t*>(numbers.data());
  RowMakerOptions options = windows_of(4);
  options.excluded = Exclusion{};
  options.files.push_back({begin, begin + 16, "a", 0, {}, begin, borders});
  EXPECT_EQ(made(RowMaker(options), numbers, {1, 3, 4}),
            (std::vector<int64_t>{1, -100, -100, 4, -100, 4, 5, -100, 4, 5, -100, -100}));
}

TEST(RowMaker, ForbiddenElementsAreNamed) {
  const std::vector<uint16_t> numbers{0, 1, 2, 50'000, 4, 5, 6, 7};
  RowMakerOptions options = windows_of(3);
  options.highest = 49'999;
  const auto* begin = reinterpret_cast<const uint8_t*>(numbers.data());
  options.files.push_back({begin, begin + 16, "tokens.bin", 100, {}, begin, {}});
  const RowMaker maker(options);
  EXPECT_EQ(made(maker, numbers, {0, 4}), (std::vector<int64_t>{0, 1, 2, 4, 5, 6}));
  try {
    made(maker, numbers, {0, 2});
    FAIL() << "50000 was let through";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt_data);
    EXPECT_EQ(error.path(), "tokens.bin");
    EXPECT_EQ(error.offset(), 106);
    EXPECT_NE(std::string(error.what()).find("50000"), std::string::npos) << error.what();
  }
}

TEST(RowMaker, TypesThatDoNotFitAreRefused) {
  const std::pair<base::DType, base::DType> wrong[] = {{base::DType::u32, base::DType::i32},
                                                       {base::DType::f32, base::DType::f64},
                                                       {base::DType::i64, base::DType::i32}};
  for (const auto& [stored, to] : wrong) {
    RowMakerOptions options;
    options.stored = stored, options.made = to, options.elements = 4;
    EXPECT_THROW(RowMaker{options}, Error);
  }
  RowMakerOptions floats;
  floats.stored = floats.made = base::DType::f32;
  floats.highest = 4;
  EXPECT_THROW(RowMaker{floats}, Error);
}

// 16 pages of ones in a file without a name.
struct Ones {
  Ones() {
    char name[] = "/tmp/row_maker_XXXXXX";
    fd = mkstemp(name);
    unlink(name);
    const std::vector<uint8_t> bytes(kSize, 1);
    EXPECT_EQ(write(fd, bytes.data(), kSize), static_cast<ssize_t>(kSize));
    data = static_cast<const uint8_t*>(mmap(nullptr, kSize, PROT_READ, MAP_SHARED, fd, 0));
  }
  ~Ones() {
    munmap(const_cast<uint8_t*>(data), kSize);
    close(fd);
  }
  bool shrank() const { return lseek(fd, 0, SEEK_END) < static_cast<off_t>(kSize); }
  static constexpr size_t kSize = 16 * 4096;
  int fd;
  const uint8_t* data;
};

RowMaker guarded_maker(const Ones& file, size_t elements) {
  RowMakerOptions options = windows_of(elements);
  options.guarded = true;
  options.files.push_back(
      {file.data, file.data + Ones::kSize, "ones.bin", 0, [&file] { return file.shrank(); }, file.data, {}});
  return RowMaker(options);
}

TEST(RowMaker, ACutFileIsAnErrorToTheByte) {
  const Ones file;
  const RowMaker maker = guarded_maker(file, 50);
  std::vector<uint8_t> out(50 * 8);
  const auto make = [&](size_t byte) {
    const uint8_t* const row = file.data + byte;
    maker.make(std::span(&row, 1), out.data(), false);
  };
  make(Ones::kSize - 100);
  ASSERT_EQ(ftruncate(file.fd, 8192 + 300), 0);
  make(8192 + 200);
  EXPECT_EQ(out[8 * 49], 1);
  for (const size_t byte : {size_t{8192 + 202}, size_t{8192 + 1000}, size_t{12'288}, Ones::kSize - 100}) {
    try {
      make(byte);
      ADD_FAILURE() << byte << " was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::corrupt_data);
      EXPECT_EQ(error.path(), "ones.bin");
    }
  }
}

TEST(RowMaker, TheEngineGoesOnBehindACutFile) {
  for (const int threads : {0, 2}) {
    const Ones file;
    const RowMaker maker = guarded_maker(file, 512);
    GatherEngine engine(threads, 2, 1);
    const auto submit = [&](size_t byte) {
      RowCopy copy{0, maker.made_bytes(), std::vector<const uint8_t*>(40, file.data + byte)};
      copy.piece_bytes = 4 * maker.made_bytes();
      copy.maker = &maker;
      engine.submit({std::move(copy)});
    };
    ASSERT_EQ(ftruncate(file.fd, 8192), 0);
    for (int i = 0; i < 20; ++i) submit(i % 2 ? 20'480 : 4096);
    for (int i = 0; i < 20; ++i) {
      std::vector<core::Lease> out;
      const auto next = [&] {
        auto status = GatherEngine::Status::pending;
        for (int tries = 0; tries < 2000 && status == GatherEngine::Status::pending; ++tries)
          status = engine.next(out, 10);
        return status;
      };
      if (i % 2) {
        EXPECT_THROW(next(), Error) << i;
      } else {
        ASSERT_EQ(next(), GatherEngine::Status::ready);
        EXPECT_EQ(out[0].data()[0], 1);
      }
    }
  }
}

TEST(TokenScan, FindsEveryPlaceAlsoManyOfThem) {
  std::vector<uint16_t> numbers(20'000, 3);
  std::vector<int64_t> expected, found;
  for (size_t i = 0; i < numbers.size(); i += 2) {
    numbers[i] = 7;
    expected.push_back(static_cast<int64_t>(i));
  }
  ASSERT_TRUE(find_all(numbers.data(), base::DType::u16, numbers.size(), 7, found));
  EXPECT_EQ(found, expected);
  const Ones file;
  ASSERT_EQ(ftruncate(file.fd, 4096), 0);
  found.clear();
  EXPECT_FALSE(find_all(file.data, base::DType::u16, Ones::kSize / 2, 9, found));
}

}  // namespace
}  // namespace millrace::collate
