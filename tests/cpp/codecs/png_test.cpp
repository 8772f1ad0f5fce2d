// The parts of the PNG decoder: filters against their definition, streams that are inflated in part, hostile
// headers.
#include <cstdlib>
#include <random>

#include <gtest/gtest.h>
#include <libdeflate.h>

#include "codecs/inflate_prefix.h"
#include "codecs/png_decoder.h"
#include "codecs/png_rows.h"
#include "millrace/error.h"
#include "picture_files.h"

namespace millrace::codecs {
namespace {

using test::Bytes;

uint8_t definition(int filter, int value, int left, int above, int corner) {
  const int p = left + above - corner, a = std::abs(p - left), b = std::abs(p - above),
            c = std::abs(p - corner);
  const int nearest = a <= b && a <= c ? left : b <= c ? above : corner;
  const int guess[] = {0, left, above, (left + above) / 2, nearest};
  return static_cast<uint8_t>(value + guess[filter]);
}

TEST(PngRows, FiltersAreUndoneAsDefined) {
  std::mt19937 random(1);
  constexpr size_t kBehind = InflatePrefix::kSlack;
  for (const size_t pixel : {1, 2, 3, 4, 6, 8})
    for (int filter = 0; filter <= 4; ++filter)
      for (size_t pixels = 0; pixels < 40; ++pixels) {
        const size_t size = pixels * pixel;
        Bytes row(size + kBehind), above(size + kBehind);
        for (Bytes* line : {&row, &above})
          for (uint8_t& byte : *line)
            byte = static_cast<uint8_t>(random() % 3 ? random() : 250 + random() % 6);
        Bytes expected = row;
        for (size_t i = 0; i < size; ++i)
          expected[i] = definition(filter, row[i], i < pixel ? 0 : expected[i - pixel], above[i],
                                   i < pixel ? 0 : above[i - pixel]);
        ASSERT_TRUE(unfilter_row(filter, row.data(), above.data(), size, pixel));
        ASSERT_EQ(row, expected) << "filter " << filter << ", " << pixels << " pixels of "
                                 << pixel;  // what lies behind included
      }
  uint8_t byte = 0;
  EXPECT_FALSE(unfilter_row(5, &byte, &byte, 0, 1));
  EXPECT_FALSE(unfilter_row(255, &byte, &byte, 0, 1));
}

class Deflated {
 public:
  Deflated(const Bytes& plain, int level) {
    libdeflate_compressor* const compressor = libdeflate_alloc_compressor(level);
    bytes_.resize(libdeflate_zlib_compress_bound(compressor, plain.size()));
    bytes_.resize(
        libdeflate_zlib_compress(compressor, plain.data(), plain.size(), bytes_.data(), bytes_.size()));
    libdeflate_free_compressor(compressor);
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

TEST(InflatePrefix, GivesTheFirstBytesOfAnyStream) {
  std::mt19937 random(2);
  Bytes plain(400'000);
  for (size_t i = 0; i < plain.size(); ++i)
    plain[i] = i > 5000 && i % 50'000 < 30'000 ? plain[i - 1 - i % 5000]
                                               : static_cast<uint8_t>(random() % (i % 3 ? 256 : 4));
  InflatePrefix inflate;
  for (const int level : {0, 1, 6, 12}) {
    const Deflated stream(plain, level);
    for (size_t needed : {size_t{1}, size_t{70'000}, size_t{200'001}, plain.size() - 70'000, plain.size() - 1,
                          plain.size()}) {
      const uint8_t* out = inflate.inflate(stream.bytes(), needed, plain.size());
      ASSERT_TRUE(out) << level << " " << needed;
      ASSERT_TRUE(std::equal(out, out + needed, plain.begin())) << level << " " << needed;
    }
  }
}

TEST(InflatePrefix, RefusesStreamsThatAreDamagedOrTooShort) {
  const Deflated stream(Bytes(1000, 7), 6);
  InflatePrefix inflate;
  EXPECT_TRUE(inflate.inflate(stream.bytes(), 1000, 1000));
  EXPECT_FALSE(inflate.inflate(stream.bytes(), 1001, 1001));
  EXPECT_FALSE(inflate.inflate(stream.bytes(), 999, 999)) << "more than it is said to have";
  EXPECT_FALSE(inflate.inflate({}, 1000, 1000));
  Bytes damaged = stream.bytes();
  damaged.back() ^= 1;
  EXPECT_FALSE(inflate.inflate(damaged, 1000, 1000)) << "its checksum";
  EXPECT_FALSE(inflate.inflate(stream.bytes(), size_t{1} << 40, size_t{1} << 40))
      << "a terabyte from a few bytes: not even tried";
}

void put32(Bytes& to, uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) to.push_back(static_cast<uint8_t>(value >> shift));
}

void put_chunk(Bytes& to, const std::string& name, const Bytes& data) {
  put32(to, static_cast<uint32_t>(data.size()));
  const size_t start = to.size();
  to.insert(to.end(), name.begin(), name.end());
  to.insert(to.end(), data.begin(), data.end());
  put32(to, libdeflate_crc32(0, to.data() + start, to.size() - start));
}

Bytes png(uint32_t width, uint32_t height, Bytes kind, const Bytes& stream) {
  Bytes file{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'}, header;
  put32(header, width);
  put32(header, height);
  header.insert(header.end(), kind.begin(), kind.end());
  put_chunk(file, "IHDR", header);
  put_chunk(file, "IDAT", stream);
  put_chunk(file, "IEND", {});
  return file;
}

TEST(PngFile, HostileHeadersAreRefusedInWords) {
  const Bytes stream = Deflated(Bytes(100), 6).bytes();
  const auto refused = [&](uint32_t width, uint32_t height, const Bytes& kind, const std::string& words) {
    try {
      probe_png(png(width, height, kind, stream));
      ADD_FAILURE() << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::corrupt_data);
      EXPECT_EQ(error.offset(), 8);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  refused(0, 5, {8, 2, 0, 0, 0}, "0 x 5");
  refused(5, 0x80000000, {8, 2, 0, 0, 0}, "2147483648");
  refused(0x7FFFFFFF, 0x7FFFFFFF, {16, 6, 0, 0, 0}, "decompression bombs");
  refused(4, 4, {3, 0, 0, 0, 0}, "depth");
  refused(4, 4, {16, 3, 0, 0, 0}, "depth");
  refused(4, 4, {8, 7, 0, 0, 0}, "colour type");
  refused(4, 4, {8, 2, 1, 0, 0}, "method");
  refused(4, 4, {8, 2, 0, 0, 2}, "method");
}

// 80 million pixels from a file of a few bytes: refused before memory is taken.
TEST(PngDecoder, AHeaderAloneTakesNoMemory) {
  const Bytes file = png(80'000, 1'000, {16, 6, 0, 0, 0}, Deflated(Bytes(100), 6).bytes());
  PngDecoder decoder;
  uint8_t pixel[base::kPixelBytes];
  try {
    decoder.decode(file, probe_png(file), {79'999, 999, 1, 1}, {pixel, 1, 1, base::kPixelBytes});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt_data);
    EXPECT_NE(std::string(error.what()).find("too few"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace millrace::codecs
