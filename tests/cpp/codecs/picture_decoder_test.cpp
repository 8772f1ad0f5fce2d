// PictureDecoder on PNG and WebP: every region is a piece of the whole, and damaged files give a picture or
// an Error, never a byte read or written outside. tests/python/test_pixels_png.py and test_pixels_webp.py
// compare the pixels with Pillow's.
#include <random>

#include <gtest/gtest.h>

#include "codecs/picture_decoder.h"
#include "picture_files.h"

namespace millrace::codecs {

namespace {

using test::Bytes;
using test::Picture;

Bytes data_file(const std::string& name) { return test::read_bytes(test_data(name)); }

// All regions of the width and height given, or of all where 0.
void check_regions(const Bytes& bytes, const std::string& name) {
  PictureDecoder decoder, other;
  const std::optional<Picture> whole = test::decode_whole(other, bytes);
  ASSERT_TRUE(whole) << name;
  const PictureHeader header = decoder.probe(bytes);
  for (const int32_t width : {1, 2, 5, header.width})
    for (const int32_t height : {1, 3, header.height})
      for (int32_t left = 0; left + width <= header.width; left += width > 2 ? 1 : 3)
        for (int32_t top = 0; top + height <= header.height; top += height > 1 ? 1 : 2) {
          const base::Rect region{left, top, width, height};
          Picture part{width, height,
                       Bytes(static_cast<size_t>(width) * static_cast<size_t>(height) * base::kPixelBytes)};
          decoder.decode(region, part.view());
          ASSERT_EQ(test::difference(*whole, region, part), "")
              << name << ": " << width << " x " << height << " at " << left << ", " << top;
        }
}

TEST(PictureDecoder, EveryRegionOfAPngIsAPieceOfTheWhole) {
  for (const auto& path : test::data_files("png")) check_regions(test::read_bytes(path), path.filename());
}

TEST(PictureDecoder, EveryRegionOfAWebpIsAPieceOfTheWhole) {
  for (const auto& path : test::data_files("webp")) check_regions(test::read_bytes(path), path.filename());
}

TEST(PictureDecoder, SaysWhatAFileIs) {
  PictureDecoder decoder;
  const auto is = [&](const std::string& name, ImageFormat format, int32_t width, int32_t height,
                      int orientation) {
    const Bytes bytes = data_file(name);
    const PictureHeader header = decoder.probe(bytes);
    EXPECT_EQ(header.format, format) << name;
    EXPECT_EQ(header.width, width) << name;
    EXPECT_EQ(header.height, height) << name;
    EXPECT_EQ(header.orientation, orientation) << name;
    EXPECT_EQ(decoder.jpeg() != nullptr, format == ImageFormat::jpeg) << name;
  };
  is("png/exif_6.png", ImageFormat::png, 5, 4, 6);
  is("png/xmp_8.png", ImageFormat::png, 5, 4, 8);
  is("webp/exif_6.webp", ImageFormat::webp, 9, 6, 6);
  is("webp/xmp_8.webp", ImageFormat::webp, 9, 6, 8);
  is("webp/animated.webp", ImageFormat::webp, 30, 22, 1);
  is("jpeg/420_33x15.jpg", ImageFormat::jpeg, 33, 15, 1);
}

TEST(PictureDecoder, LeavesOtherFormatsToAFallback) {
  PictureDecoder decoder;
  for (const std::string text : {"", "GIF89a", "BM", "no picture at all"}) {
    const Bytes bytes(text.begin(), text.end());
    try {
      decoder.probe(bytes);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unavailable) << text;
    }
    EXPECT_THROW(decoder.decode({0, 0, 1, 1}, {}), Error);
  }
}

TEST(PictureDecoder, TruncationAtEveryByteIsAnError) {
  PictureDecoder decoder;
  for (const char* folder : {"png", "webp"})
    for (const auto& path : test::data_files(folder)) {
      if (path.filename() == "animated.png") continue;  // its second frame is not missed
      const Bytes whole = test::read_bytes(path);
      ASSERT_TRUE(test::decode_whole(decoder, whole)) << path;
      for (size_t length = 0; length < whole.size(); ++length)
        ASSERT_FALSE(
            test::decode_whole(decoder, Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length))))
            << path << " cut to " << length << " of " << whole.size() << " bytes";
    }
}

TEST(PictureDecoder, FlippedBytesGiveAPictureOrAnError) {
  PictureDecoder decoder;
  std::mt19937 random(6);
  int refused = 0, pictures = 0;
  for (const char* folder : {"png", "webp"})
    for (const auto& path : test::data_files(folder)) {
      const Bytes whole = test::read_bytes(path);
      for (int i = 0; i < 100; ++i) {
        Bytes bytes = whole;
        for (uint32_t flips = 1 + random() % 3; flips > 0; --flips)
          bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
        (test::decode_whole(decoder, bytes) ? pictures : refused) += 1;
      }
    }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(pictures, 50);  // WebP has no checksums
}

}  // namespace
}  // namespace millrace::codecs
