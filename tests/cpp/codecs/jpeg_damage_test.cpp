// JpegDecoder on damaged files: a picture or Error(corrupt_data), never a crash, never a byte read or written
// outside. Run under the address and undefined-behaviour sanitizers; inputs lie in buffers of exactly their
// size so that those see overreads.
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include "codecs/jpeg_decoder.h"
#include "jpeg_files.h"
#include "millrace/error.h"

namespace millrace::codecs {
namespace {

using test::Bytes;
using test::Picture;

constexpr int64_t kMostTestPixels =
    1 << 20;  // damage may make a picture huge: the rest of it teaches nothing new

enum class Outcome { picture, refused, too_large };

// Empty where `region` of `bytes` is decoded, else the error.
std::string refusal(JpegRule rule, const Bytes& bytes, base::Rect region) {
  JpegDecoder decoder(rule);
  Bytes pixels(static_cast<size_t>(region.width) * static_cast<size_t>(region.height) * base::kPixelBytes);
  try {
    decoder.decode(bytes, probe_jpeg(bytes), region,
                   base::ImageView{pixels.data(), region.width, region.height,
                                   ptrdiff_t{region.width} * base::kPixelBytes});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt_data) << error.what();
    return error.what();
  }
  return {};
}

base::Rect whole_of(const Bytes& bytes) { return {0, 0, probe_jpeg(bytes).width, probe_jpeg(bytes).height}; }

Outcome try_decode(JpegDecoder& decoder, const Bytes& bytes, Picture& picture) {
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), exact.get());
  const std::span<const uint8_t> input(exact.get(), bytes.size());
  try {
    const JpegHeader header = probe_jpeg(input);
    if (int64_t{header.width} * header.height > kMostTestPixels) return Outcome::too_large;
    picture = {
        header.width, header.height,
        Bytes(static_cast<size_t>(header.width) * static_cast<size_t>(header.height) * base::kPixelBytes)};
    decoder.decode(input, header, {0, 0, header.width, header.height}, picture.view());
    return Outcome::picture;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt_data) << error.what();
    EXPECT_FALSE(std::string(error.what()).empty());
    return Outcome::refused;
  }
}

TEST(DamagedJpeg, TruncationIsAnError) {
  JpegDecoder decoder;
  for (const std::string& name : test::jpeg_names()) {
    const Bytes whole = test::read_jpeg(name);
    for (size_t part = 0; part <= 20; ++part) {
      const size_t length = part == 20 ? whole.size() - 2 : whole.size() * part / 20;
      Picture picture;
      EXPECT_EQ(
          try_decode(decoder, Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length)), picture),
          Outcome::refused)
          << name << " cut to " << length << " of " << whole.size() << " bytes";
    }
  }
}

TEST(DamagedJpeg, TruncationIsAnErrorForEveryRegion) {
  Bytes bytes = test::read_jpeg("420_q95");
  bytes.resize(bytes.size() - 40);
  JpegDecoder decoder;
  Bytes pixels(64 * base::kPixelBytes);
  EXPECT_THROW(decoder.decode(bytes, probe_jpeg(bytes), {0, 0, 8, 8},
                              base::ImageView{pixels.data(), 8, 8, 8 * base::kPixelBytes}),
               Error);
}

TEST(DamagedJpeg, TwelveBitsAreRefusedInWords) {
  Bytes bytes = test::read_jpeg("420_q75");
  JpegHeader header = probe_jpeg(bytes);
  header.precision = 12;
  JpegDecoder decoder;
  Bytes pixels(base::kPixelBytes);
  try {
    decoder.decode(bytes, header, {0, 0, 1, 1}, base::ImageView{pixels.data(), 1, 1, base::kPixelBytes});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt_data);
    EXPECT_NE(std::string(error.what()).find("12 bits"), std::string::npos) << error.what();
  }
}

// Whatever our own decoder takes as regular must come out as libjpeg would have it, however strange the
// stream has become.
TEST(DamagedJpeg, FlippedBytesGiveLibjpegsPictureOrAnError) {
  JpegDecoder decoder;
  std::mt19937 random(4);
  int pictures = 0, own = 0, refused = 0;
  for (const std::string& name : test::jpeg_names()) {
    const Bytes whole = test::read_jpeg(name);
    for (int i = 0; i < 150; ++i) {
      Bytes bytes = whole;
      for (uint32_t flips = 1 + random() % 4; flips > 0; --flips) {
        // Half of the flips hit the first bytes, where the tables are.
        const size_t range = random() % 2 ? bytes.size() : std::min<size_t>(bytes.size(), 640);
        bytes[random() % range] = static_cast<uint8_t>(random());
      }
      Picture picture;
      const Outcome outcome = try_decode(decoder, bytes, picture);
      refused += outcome == Outcome::refused;
      if (outcome != Outcome::picture) continue;
      ++pictures;
      own += decoder.used_baseline();
      const auto reference = test::reference_decode(bytes);
      ASSERT_TRUE(reference) << name << " " << i;
      ASSERT_EQ(test::difference(*reference, {0, 0, picture.width, picture.height}, picture), "")
          << name << " " << i;
    }
  }
  // The test means something only when all ways are taken.
  EXPECT_GT(own, 500);
  EXPECT_GT(pictures - own, 500);
  EXPECT_GT(refused, 100);
}

TEST(StrictJpegRule, TakesEverySoundFile) {
  for (const std::string& name : test::jpeg_names())
    EXPECT_EQ(refusal(JpegRule::strict, test::read_jpeg(name), whole_of(test::read_jpeg(name))), "") << name;
}

// One that does not belong into the scan, in its last tenth: Pillow refuses the file, or fills the rest with
// grey.
TEST(StrictJpegRule, SeesAMarkerBehindTheRegion) {
  for (const std::string& name : test::jpeg_names()) {
    const Bytes sound = test::read_jpeg(name);
    const JpegHeader header = probe_jpeg(sound);
    if (sound.size() - header.scan_begin < 400) continue;
    for (const uint8_t marker : {0x40, 0xC0, 0xFE, 0xD3}) {
      Bytes bytes = sound;
      const size_t at = header.scan_begin + (bytes.size() - header.scan_begin) / 10 * 9;
      bytes[at] = 0xFF;
      bytes[at + 1] = marker;
      EXPECT_NE(refusal(JpegRule::strict, bytes, {0, 0, 8, 8}), "") << name << " " << int{marker};
    }
  }
}

TEST(StrictJpegRule, LeavesWrongBitsBehindTheRegionUnseen) {
  for (const char* name : {"420_q95", "444_q90", "cmyk", "arithmetic_420", "410_q85"}) {
    const Bytes sound = test::read_jpeg(name);
    Bytes bytes = sound;
    const size_t from = probe_jpeg(bytes).scan_begin + (bytes.size() - probe_jpeg(bytes).scan_begin) / 10 * 9;
    for (size_t at = from; at + 3 < bytes.size(); ++at)
      if (bytes[at] != 0xFF && bytes[at - 1] != 0xFF) bytes[at] = 0x55;
    EXPECT_EQ(refusal(JpegRule::strict, bytes, {0, 0, 16, 16}), "") << name;
  }
}

// Decoders smooth what missing scans leave open, each in its own way.
TEST(StrictJpegRule, RefusesProgressivePicturesThatLackScans) {
  const Bytes sound = test::read_jpeg("progressive_420");
  std::vector<size_t> scans;
  for (size_t at = 0; at + 1 < sound.size(); ++at)
    if (sound[at] == 0xFF && sound[at + 1] == 0xDA) scans.push_back(at);
  ASSERT_GT(scans.size(), 3u);
  for (size_t kept = 1; kept < scans.size(); ++kept) {
    // The tables in front of a scan go with it.
    Bytes bytes(sound.begin(), sound.begin() + static_cast<ptrdiff_t>(scans[kept]));
    for (size_t at = bytes.size() - 1; at > scans[kept - 1]; --at)
      if (bytes[at - 1] == 0xFF && bytes[at] == 0xC4) bytes.resize(at - 1);
    bytes.insert(bytes.end(), {0xFF, 0xD9});
    EXPECT_EQ(refusal(JpegRule::lenient, bytes, whole_of(bytes)), "") << kept;
    EXPECT_NE(refusal(JpegRule::strict, bytes, {0, 0, 8, 8}).find("scans are missing"), std::string::npos)
        << kept;
  }
}

// libjpeg finds these on its way from the last row to the end marker, where Pillow goes, too.
TEST(LenientJpegRule, RefusesWholePicturesWithAWrongMarker) {
  for (const char* name : {"420_q95", "cmyk", "arithmetic_420"}) {
    Bytes bytes = test::read_jpeg(name);
    const size_t at = probe_jpeg(bytes).scan_begin + (bytes.size() - probe_jpeg(bytes).scan_begin) / 2;
    bytes[at] = 0xFF;
    bytes[at + 1] = 0x40;
    EXPECT_NE(refusal(JpegRule::lenient, bytes, whole_of(bytes)), "") << name;
    bytes[at + 1] = 0xD3;  // a restart marker is only a warning
    EXPECT_EQ(refusal(JpegRule::lenient, bytes, whole_of(bytes)), "") << name;
  }
}

TEST(DamagedJpeg, NoiseIsRefused) {
  JpegDecoder decoder;
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    Bytes bytes(random() % 300);
    for (uint8_t& byte : bytes) byte = random() % 4 == 0 ? 0xFF : static_cast<uint8_t>(random());
    if (bytes.size() >= 2 && i % 2) bytes[0] = 0xFF, bytes[1] = 0xD8;
    Picture picture;
    EXPECT_NE(try_decode(decoder, bytes, picture), Outcome::picture);
  }
}

}  // namespace
}  // namespace millrace::codecs
