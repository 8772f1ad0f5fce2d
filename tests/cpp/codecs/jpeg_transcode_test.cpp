// transcode_jpeg: the same pixels and the same segments of metadata in a file of restart segments; and
// regions of such files, sound and damaged, by the decoder that jumps.
#include "codecs/jpeg_transcode.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "codecs/jpeg_decoder.h"
#include "jpeg_files.h"
#include "millrace/error.h"

namespace millrace::codecs {
namespace {

using test::Bytes;
using test::decode;
using test::Picture;

struct Segments {
  std::vector<Bytes> metadata;  // APPn and COM, whole, in their order
  int restart_interval = 0;
  size_t scan = 0;  // first byte behind the first SOS segment
};

Segments segments_of(const Bytes& bytes) {
  Segments found;
  size_t at = 2;
  while (at + 4 <= bytes.size()) {
    const uint8_t marker = bytes[at + 1];
    const size_t end = at + 2 + size_t{bytes[at + 2]} * 256 + bytes[at + 3];
    if ((marker >= 0xE0 && marker <= 0xEF) || marker == 0xFE)
      found.metadata.emplace_back(bytes.begin() + static_cast<ptrdiff_t>(at),
                                  bytes.begin() + static_cast<ptrdiff_t>(end));
    if (marker == 0xDD) found.restart_interval = bytes[at + 4] * 256 + bytes[at + 5];
    at = end;
    if (marker == 0xDA) break;
  }
  found.scan = at;
  return found;
}

base::Rect random_part(int32_t width, int32_t height, std::mt19937& random) {
  const auto up_to = [&](int32_t n) { return static_cast<int32_t>(random() % static_cast<uint32_t>(n)); };
  base::Rect region{up_to(width), up_to(height), 0, 0};
  region.width = 1 + up_to(width - region.left);
  region.height = 1 + up_to(height - region.top);
  return region;
}

std::string refusal(const Bytes& bytes) {
  try {
    transcode_jpeg(bytes);
    return "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt_data);
    return error.what();
  }
}

class TranscodedFile : public testing::TestWithParam<std::string> {};

TEST_P(TranscodedFile, HasThePixelsAndTheMetadata) {
  const Bytes bytes = test::read_jpeg(GetParam());
  const auto whole = test::reference_decode(bytes);
  ASSERT_TRUE(whole);
  const JpegHeader before = probe_jpeg(bytes);
  JpegDecoder decoder;
  std::mt19937 random(1);
  for (const int32_t pixels : {0, 1, 16, 64, 100'000'000})
    for (const bool own_tables : {false, true}) {
      const TranscodeOptions options{pixels, own_tables};
      const Bytes made = transcode_jpeg(bytes, options);
      const auto picture = test::reference_decode(made);
      ASSERT_TRUE(picture);
      ASSERT_EQ(picture->rgbx, whole->rgbx);
      const JpegHeader after = probe_jpeg(made);
      EXPECT_TRUE(after.width == before.width && after.height == before.height &&
                  after.components == before.components && after.orientation == before.orientation &&
                  !after.progressive && !after.arithmetic);
      EXPECT_EQ(segments_of(made).metadata, segments_of(bytes).metadata);
      EXPECT_EQ(segments_of(made).restart_interval > 0, pixels > 0);
      EXPECT_EQ(transcode_jpeg(made, options), made);
      for (int i = 0; i < 20; ++i) {
        const base::Rect region = random_part(whole->width, whole->height, random);
        ASSERT_EQ(test::difference(*whole, region, decode(decoder, made, region)), "");
      }
    }
}

INSTANTIATE_TEST_SUITE_P(All, TranscodedFile, testing::ValuesIn(test::jpeg_names()),
                         [](const auto& file) { return file.param; });

TEST(TranscodeJpeg, SegmentsAreAsLongAsAsked) {
  EXPECT_EQ(segments_of(transcode_jpeg(test::read_jpeg("420_q75"))).restart_interval, 4);
  EXPECT_EQ(segments_of(transcode_jpeg(test::read_jpeg("444_q90"))).restart_interval, 8);
  EXPECT_EQ(segments_of(transcode_jpeg(test::read_jpeg("grey_sampled_2x2"))).restart_interval, 8);
  EXPECT_EQ(segments_of(transcode_jpeg(test::read_jpeg("420_q75"), {1, false})).restart_interval, 1);
}

TEST(TranscodeJpeg, OwnTablesAreSmallerAndProgressiveBecomesOurs) {
  const Bytes plain = test::read_jpeg("420_q95");
  EXPECT_LT(transcode_jpeg(plain, {0, true}).size(), transcode_jpeg(plain, {0, false}).size());
  JpegDecoder decoder;
  decode(decoder, transcode_jpeg(test::read_jpeg("progressive_420")), {0, 0, 8, 8});
  EXPECT_TRUE(decoder.used_baseline());
}

TEST(TranscodeJpeg, RefusesWhatIsNotWhole) {
  Bytes cut = test::read_jpeg("420_q95");
  cut.resize(cut.size() - 100);
  EXPECT_NE(refusal(cut).find("truncated"), std::string::npos) << refusal(cut);
  EXPECT_NE(refusal({}).find("empty"), std::string::npos);
  // A progressive file without its last scan is a sound file that decoders smooth.
  Bytes progressive = test::read_jpeg("progressive_420");
  size_t last_scan = 0;
  for (size_t i = 0; i + 1 < progressive.size(); ++i)
    if (progressive[i] == 0xFF && progressive[i + 1] == 0xDA) last_scan = i;
  progressive.resize(last_scan);
  progressive.insert(progressive.end(), {0xFF, 0xD9});
  EXPECT_NE(refusal(progressive).find("last scans are missing"), std::string::npos) << refusal(progressive);
}

TEST(TranscodeJpeg, BytesBehindTheEndAreDropped) {
  const Bytes bytes = test::read_jpeg("420_q75");
  Bytes longer = bytes;
  longer.resize(longer.size() + 1000, 0xFF);
  EXPECT_EQ(transcode_jpeg(longer), transcode_jpeg(bytes));
}

// Of damaged files, a new one has the pixels that libjpeg shows for the old one, or there is none.
TEST(TranscodeJpeg, FlippedBytesGiveTheSamePictureOrAnError) {
  std::mt19937 random(2);
  int made = 0, refused = 0;
  for (const std::string& name : test::jpeg_names()) {
    const Bytes whole = test::read_jpeg(name);
    for (int i = 0; i < 60; ++i) {
      Bytes bytes = whole;
      for (uint32_t flips = 1 + random() % 3; flips > 0; --flips)
        bytes[random() % (random() % 2 ? bytes.size() : std::min<size_t>(bytes.size(), 640))] =
            static_cast<uint8_t>(random());
      try {
        const JpegHeader header = probe_jpeg(bytes);
        if (int64_t{header.width} * header.height > 1 << 20) continue;
        const Bytes after = transcode_jpeg(bytes);
        ++made;
        const auto expected = test::reference_decode(bytes), picture = test::reference_decode(after);
        ASSERT_TRUE(expected && picture) << name << " " << i;
        ASSERT_EQ(expected->rgbx, picture->rgbx) << name << " " << i;
      } catch (const Error& error) {
        ASSERT_EQ(error.kind(), ErrorKind::corrupt_data) << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(made, 300);
  EXPECT_GT(refused, 300);
}

// Where segments are damaged, markers lost, doubled or moved, a region is still what libjpeg shows there, or
// an error.
TEST(TranscodeJpeg, RegionsOfDamagedSegmentsAreLibjpegs) {
  std::mt19937 random(3);
  JpegDecoder decoder;
  int own = 0, others = 0;
  for (const char* name : {"420_q95", "422_q90", "444_q90", "grey_q85", "noise_420_q100"}) {
    const Bytes whole = transcode_jpeg(test::read_jpeg(name), {16, false});
    const size_t scan = segments_of(whole).scan;
    std::vector<size_t> markers;
    for (size_t at = scan; at + 1 < whole.size(); ++at)
      if (whole[at] == 0xFF && whole[at + 1] >= 0xD0 && whole[at + 1] <= 0xD7) markers.push_back(at);
    ASSERT_GT(markers.size(), 8u);
    for (int i = 0; i < 400; ++i) {
      Bytes bytes = whole;
      const auto marker = bytes.begin() + static_cast<ptrdiff_t>(markers[random() % markers.size()]);
      const auto any = bytes.begin() + static_cast<ptrdiff_t>(scan + random() % (bytes.size() - scan - 2));
      switch (random() % 6) {
        case 0: *any = static_cast<uint8_t>(random()); break;
        case 1: marker[1] = static_cast<uint8_t>(0xD0 + random() % 8); break;
        case 2: bytes.erase(marker, marker + 2); break;
        case 3: bytes.insert(any, {0xFF, static_cast<uint8_t>(0xD0 + random() % 8)}); break;
        case 4:
          bytes.erase(any, std::min(any + 1 + static_cast<ptrdiff_t>(random() % 400), bytes.end() - 2));
          break;
        default: marker[random() % 2] = static_cast<uint8_t>(random());
      }
      const auto expected = test::reference_decode(bytes);
      for (int k = 0; k < 5; ++k) {
        const base::Rect region = random_part(probe_jpeg(whole).width, probe_jpeg(whole).height, random);
        try {
          const Picture part = decode(decoder, bytes, region);
          ASSERT_TRUE(expected) << name << " " << i;
          ASSERT_EQ(test::difference(*expected, region, part), "")
              << name << " " << i << " " << k << " " << decoder.used_baseline();
          ++(decoder.used_baseline() ? own : others);
        } catch (const Error& error) {
          ASSERT_EQ(error.kind(), ErrorKind::corrupt_data) << error.what();
        }
      }
    }
  }
  EXPECT_GT(own, 500);
  EXPECT_GT(others, 500);
}

}  // namespace
}  // namespace millrace::codecs
