// JpegDecoder on sound files: any region equals the same cut of a whole decode by libjpeg, on every
// instruction set.
#include "codecs/jpeg_decoder.h"

#include <random>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "jpeg_files.h"
#include "millrace/error.h"

namespace millrace::codecs {
namespace {

using test::Bytes;
using test::decode;
using test::Picture;

// Mixes whole pictures, single pixels and rows, thin strips, regions at the edges and any others.
base::Rect random_region(int32_t width, int32_t height, std::mt19937& random) {
  const auto span = [&](int32_t size) {
    const auto up_to = [&](int32_t n) { return static_cast<int32_t>(random() % static_cast<uint32_t>(n)); };
    const int32_t length = random() % 3 == 0 ? 1 + up_to(std::min(size, 6)) : 1 + up_to(size);
    const int32_t place = static_cast<int32_t>(random() % 4);
    return std::pair{place == 0 ? 0 : place == 1 ? size - length : up_to(size - length + 1), length};
  };
  const auto [left, w] = span(width);
  const auto [top, h] = span(height);
  return {left, top, w, h};
}

// What our own decoder does not take: other coding processes, samplings and colour spaces, and the narrowest
// pictures with halved chroma columns, where libjpeg does not interpolate.
const std::set<std::string> kForLibjpeg = {
    "410_q85", "411_q85",         "440_q85", "arithmetic_420",  "cmyk", "420_1x1", "420_1x40", "420_2x2",
    "420_4x4", "progressive_420", "422_3x9", "progressive_444", "rgb",  "ycck_420"};

class JpegFile : public testing::TestWithParam<std::string> {};

TEST_P(JpegFile, RegionsEqualTheWholePicture) {
  const Bytes bytes = test::read_jpeg(GetParam());
  const auto whole = test::reference_decode(bytes);
  ASSERT_TRUE(whole);
  test::for_each_target([&] {
    JpegDecoder decoder;
    std::mt19937 random(1);
    for (int i = 0; i < 100; ++i) {
      const base::Rect region = i == 0 ? base::Rect{0, 0, whole->width, whole->height}
                                       : random_region(whole->width, whole->height, random);
      ASSERT_EQ(test::difference(*whole, region, decode(decoder, bytes, region)), "");
      ASSERT_EQ(decoder.used_baseline(), !kForLibjpeg.contains(GetParam()));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, JpegFile, testing::ValuesIn(test::jpeg_names()),
                         [](const auto& file) { return file.param; });

TEST(JpegDecoder, OneDecoderServesAllFilesInAnyOrder) {
  std::vector<std::pair<Bytes, Picture>> files;
  for (const std::string& name : test::jpeg_names()) {
    Bytes bytes = test::read_jpeg(name);
    Picture whole = *test::reference_decode(bytes);
    files.emplace_back(std::move(bytes), std::move(whole));
  }
  JpegDecoder decoder;
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    const auto& [bytes, whole] = files[random() % files.size()];
    const base::Rect region = random_region(whole.width, whole.height, random);
    ASSERT_EQ(test::difference(whole, region, decode(decoder, bytes, region)), "");
  }
}

TEST(JpegDecoder, WritesInsideItsRegionOnly) {
  for (const char* name : {"420_q95", "422_q90", "444_q90", "grey_q85", "progressive_420"}) {
    const Bytes bytes = test::read_jpeg(name);
    const JpegHeader header = probe_jpeg(bytes);
    constexpr int32_t kWide = 60, kHigh = 40;
    Bytes pixels(kWide * kHigh * base::kPixelBytes, 0xAB);
    std::mt19937 random(3);
    JpegDecoder decoder;
    for (int i = 0; i < 50; ++i) {
      std::fill(pixels.begin(), pixels.end(), uint8_t{0xAB});
      const base::Rect place = random_region(kWide, kHigh, random);
      base::ImageView out{pixels.data() + (place.top * kWide + place.left) * base::kPixelBytes, place.width,
                          place.height, kWide * base::kPixelBytes};
      decoder.decode(bytes, header, {3, 5, place.width, place.height}, out);
      for (int32_t y = 0; y < kHigh; ++y)
        for (int32_t x = 0; x < kWide; ++x) {
          if (x >= place.left && x < place.right() && y >= place.top && y < place.bottom()) continue;
          for (int32_t c = 0; c < base::kPixelBytes; ++c)
            ASSERT_EQ(pixels[static_cast<size_t>((y * kWide + x) * base::kPixelBytes + c)], 0xAB)
                << name << " " << x << " " << y;
        }
    }
  }
}

TEST(JpegDecoder, RefusesRegionsOutsideThePicture) {
  const Bytes bytes = test::read_jpeg("420_q75");
  const JpegHeader header = probe_jpeg(bytes);
  Bytes pixels(200 * 200 * base::kPixelBytes);
  JpegDecoder decoder;
  for (const base::Rect region : {base::Rect{0, 0, 102, 67}, base::Rect{0, 0, 101, 68},
                                  base::Rect{-1, 0, 5, 5}, base::Rect{0, -1, 5, 5}, base::Rect{100, 66, 2, 1},
                                  base::Rect{0, 0, 0, 5}, base::Rect{1, 1, 0x7FFFFFFF, 1}}) {
    try {
      decoder.decode(bytes, header, region, base::ImageView{pixels.data(), region.width, region.height, 800});
      ADD_FAILURE() << region.left << " " << region.top << " " << region.width << " " << region.height;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    }
  }
}

}  // namespace
}  // namespace millrace::codecs
