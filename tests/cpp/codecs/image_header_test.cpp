// probe_jpeg and sniff: what is read from sound headers, and what is said about broken ones.
#include "codecs/image_header.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "jpeg_files.h"
#include "millrace/error.h"

namespace millrace::codecs {
namespace {

using test::Bytes;
using test::read_jpeg;

Error error_of(const Bytes& bytes) {
  try {
    probe_jpeg(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt_data) << error.what();
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorKind::system, "");
}

// Where the segment with this marker begins.
size_t find_marker(const Bytes& bytes, uint8_t marker) {
  for (size_t at = 2; at + 4 <= bytes.size(); at += 2 + size_t{bytes[at + 2]} * 256 + bytes[at + 3])
    if (bytes[at + 1] == marker) return at;
  ADD_FAILURE() << "no marker " << int{marker};
  return 0;
}

Bytes with_size(uint16_t width, uint16_t height) {
  Bytes bytes = read_jpeg("420_q75");
  const size_t frame = find_marker(bytes, 0xC0);
  bytes[frame + 5] = static_cast<uint8_t>(height >> 8);
  bytes[frame + 6] = static_cast<uint8_t>(height);
  bytes[frame + 7] = static_cast<uint8_t>(width >> 8);
  bytes[frame + 8] = static_cast<uint8_t>(width);
  return bytes;
}

TEST(ProbeJpeg, ReadsTheFrameHeader) {
  const JpegHeader colour = probe_jpeg(read_jpeg("420_q75"));
  EXPECT_EQ(colour.width, 101);
  EXPECT_EQ(colour.height, 67);
  EXPECT_EQ(colour.components, 3);
  EXPECT_EQ(colour.precision, 8);
  EXPECT_EQ(colour.orientation, 1);
  EXPECT_FALSE(colour.progressive || colour.arithmetic);
  EXPECT_EQ(probe_jpeg(read_jpeg("grey_q85")).components, 1);
  EXPECT_EQ(probe_jpeg(read_jpeg("cmyk")).components, 4);
  EXPECT_TRUE(probe_jpeg(read_jpeg("progressive_420")).progressive);
  EXPECT_TRUE(probe_jpeg(read_jpeg("arithmetic_420")).arithmetic);
}

TEST(ProbeJpeg, ReadsTheOrientationInBothByteOrders) {
  EXPECT_EQ(probe_jpeg(read_jpeg("exif_orientation_6")).orientation, 6);
  const Bytes plain = read_jpeg("420_q75");
  bool known = false;
  const auto with_exif = [&](const Bytes& tiff) {
    Bytes segment = {0xFF, 0xE1, 0, static_cast<uint8_t>(8 + tiff.size()), 'E', 'x', 'i', 'f', 0, 0};
    segment.insert(segment.end(), tiff.begin(), tiff.end());
    Bytes bytes = plain;
    bytes.insert(bytes.begin() + 2, segment.begin(), segment.end());
    const JpegHeader header = probe_jpeg(bytes);
    known = header.orientation_known;
    return header.orientation;
  };
  const Bytes little = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 8, 0, 0, 0};
  const Bytes big = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 3, 0, 0};
  EXPECT_EQ(with_exif(little), 8);
  EXPECT_EQ(with_exif(big), 3);
  EXPECT_TRUE(known);
  Bytes other = little;
  for (const uint8_t type : {4, 6, 8, 9}) {  // whole numbers of other sizes, and with a sign
    other[12] = type;
    EXPECT_EQ(with_exif(other), 8) << int{type};
    EXPECT_TRUE(known) << int{type};
  }
  for (const uint8_t type : {0, 1, 2, 5, 7, 10, 11, 12, 13, 16, 99}) {
    other[12] = type;
    with_exif(other);
    EXPECT_FALSE(known) << int{type};
  }
  other = little;
  other[14] = 2;
  EXPECT_EQ(with_exif(other), 8);
  EXPECT_FALSE(known) << "two values";
  // Damaged EXIF means upright: a value out of range, a directory outside the segment, a cut entry, no entry
  // at all.
  Bytes damaged = little;
  damaged[18] = 9;
  EXPECT_EQ(with_exif(damaged), 1);
  damaged = little;
  damaged[4] = damaged[5] = damaged[6] = damaged[7] = 0xFF;
  EXPECT_EQ(with_exif(damaged), 1);
  for (size_t length = 0; length < little.size(); ++length)
    EXPECT_EQ(with_exif(Bytes(little.begin(), little.begin() + static_cast<ptrdiff_t>(length))), 1);
}

TEST(ProbeJpeg, RefusesPicturesAboveThePixelLimit) {
  const Error error = error_of(with_size(60000, 60000));
  EXPECT_NE(std::string(error.what()).find("178956970"), std::string::npos) << error.what();
  EXPECT_NE(std::string(error.what()).find("60000 x 60000"), std::string::npos) << error.what();
  EXPECT_GT(error.offset(), 0);
  EXPECT_EQ(probe_jpeg(with_size(13377, 13377)).width, 13377);  // just below
  error_of(with_size(13378, 13378));
  error_of(with_size(0, 10));
  error_of(with_size(10, 0));
}

TEST(ProbeJpeg, SaysWhatIsWrong) {
  EXPECT_NE(std::string(error_of({}).what()).find("empty"), std::string::npos);
  EXPECT_NE(std::string(error_of({'h', 'e', 'l', 'l', 'o'}).what()).find("not a JPEG"), std::string::npos);
  EXPECT_NE(std::string(error_of({0xFF, 0xD8}).what()).find("frame header"), std::string::npos);
  const Bytes whole = read_jpeg("420_q75");
  const size_t frame = find_marker(whole, 0xC0);
  for (size_t length = 0; length < frame + 19; ++length)
    error_of(Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length)));
  for (size_t length = frame + 19; length < whole.size(); ++length)
    EXPECT_EQ(probe_jpeg(std::span(whole).first(length)).width, 101) << length;
}

// What Pillow refuses though libjpeg does not, or where each might take something else.
TEST(ProbeJpeg, SaysWhatIsOdd) {
  for (const std::string& name : test::jpeg_names())
    EXPECT_EQ(probe_jpeg(read_jpeg(name)).oddity, nullptr) << name;
  const Bytes plain = read_jpeg("420_q75");
  const auto oddity = [&](const Bytes& inserted) {
    Bytes bytes = plain;
    bytes.insert(bytes.begin() + 2, inserted.begin(), inserted.end());
    const JpegHeader header = probe_jpeg(bytes);
    return std::string(header.oddity ? header.oddity : "");
  };
  const auto segment = [](uint8_t marker, const std::string& content) {
    Bytes bytes(4 + content.size());
    bytes[0] = 0xFF, bytes[1] = marker, bytes[3] = static_cast<uint8_t>(2 + content.size());
    std::copy(content.begin(), content.end(), bytes.begin() + 4);
    return bytes;
  };
  const std::string photoshop("Photoshop 3.0\0", 14), icc("ICC_PROFILE\0", 12);
  EXPECT_EQ(oddity({}), "");
  EXPECT_NE(oddity({7}), "");
  EXPECT_NE(oddity({0xFF}), "");
  EXPECT_NE(oddity({0xFF, 0x01}), "");
  EXPECT_NE(oddity({0xFF, 0xD0}), "");
  EXPECT_NE(oddity(segment(0xF3, "")), "");
  EXPECT_EQ(oddity(segment(0xE5, "anything")), "");
  EXPECT_EQ(oddity(segment(0xFE, "anything")), "");
  EXPECT_NE(oddity(segment(0xE0, "JFIF")), "");
  EXPECT_NE(oddity(segment(0xEE, "Adobe")), "");
  EXPECT_NE(oddity(segment(0xE2, icc)), "");
  EXPECT_EQ(oddity(segment(0xE2, icc + "\1\1")), "");
  EXPECT_EQ(oddity(segment(0xED, photoshop)), "");
  EXPECT_EQ(oddity(segment(0xED, photoshop + std::string("8BIM\4\4\0\0\0\0\0\2ab", 14))), "");
  EXPECT_NE(oddity(segment(0xED, photoshop + "8BIM\4\4")), "");
  EXPECT_EQ(oddity(segment(0xED, photoshop + "8BIM\4")), "");
  EXPECT_NE(oddity(segment(0xDB, "\x10")), "");
  const size_t frame = find_marker(plain, 0xC0), length = size_t{plain[frame + 3]} + 2;
  EXPECT_NE(oddity(Bytes(plain.begin() + static_cast<ptrdiff_t>(frame),
                         plain.begin() + static_cast<ptrdiff_t>(frame + length))),
            "");
  const size_t scan = probe_jpeg(plain).scan_begin;
  EXPECT_EQ(plain[find_marker(plain, 0xDA) + 3] + find_marker(plain, 0xDA) + 2, scan);
  EXPECT_NE(probe_jpeg(std::span(plain).first(scan - 3)).oddity, nullptr) << "no scan";
}

TEST(Sniff, KnowsTheMagicNumbers) {
  EXPECT_EQ(sniff(read_jpeg("420_1x40")), ImageFormat::jpeg);
  EXPECT_EQ(sniff(Bytes{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'}), ImageFormat::png);
  EXPECT_EQ(sniff(Bytes{'G', 'I', 'F', '8', '9', 'a'}), ImageFormat::gif);
  EXPECT_EQ(sniff(Bytes{'R', 'I', 'F', 'F', 0, 0, 0, 0, 'W', 'E', 'B', 'P'}), ImageFormat::webp);
  EXPECT_EQ(sniff(Bytes{'M', 'M', 0, 42}), ImageFormat::tiff);
  EXPECT_EQ(sniff(Bytes{'B', 'M', 0, 0}), ImageFormat::bmp);
  EXPECT_EQ(sniff(Bytes{'R', 'I', 'F', 'F'}), ImageFormat::unknown);
  EXPECT_EQ(sniff(Bytes{}), ImageFormat::unknown);
  EXPECT_STREQ(format_name(ImageFormat::webp), "WebP");
}

}  // namespace
}  // namespace millrace::codecs
