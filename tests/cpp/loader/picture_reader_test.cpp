// PictureReader: who decodes which file, and whose error is told.
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "loader/picture_reader.h"
#include "../test_data.h"
#include "millrace/error.h"

namespace millrace::loader {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes data_file(const std::string& name) {
  std::ifstream file(test_data(name), std::ios::binary);
  EXPECT_TRUE(file) << name;
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

// Gives a picture of one colour, or refuses.
class Painter final : public FallbackDecoder {
 public:
  Painter(int32_t width, int32_t height) : width_(width), height_(height) {}
  void decode(std::span<const uint8_t>, const std::string& path, transforms::PixelBuffer& out,
              int* orientation) const override {
    ++calls;
    if (width_ == 0) throw Error(ErrorKind::corrupt_data, "the painter refuses " + path);
    const base::ImageView view = out.resize(width_, height_);
    for (int32_t y = 0; y < height_; ++y) std::fill_n(view.row(y), width_ * base::kPixelBytes, kColor);
    *orientation = 3;
  }
  static constexpr uint8_t kColor = 77;
  mutable int calls = 0;

 private:
  const int32_t width_, height_;
};

Error error_of(const FallbackDecoder* fallback, const Bytes& bytes, bool when_decoding = false) {
  PictureReader reader(fallback, [] { return "name"; }, nullptr);
  try {
    const codecs::PictureHeader& header = reader.open(bytes);
    EXPECT_TRUE(when_decoding);
    reader.decode({0, 0, header.width, header.height});
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE();
  return Error(ErrorKind::system, "none");
}

// The pixels end too early, which only decoding finds out: the stream of another PNG, in the frame of this
// one.
Bytes with_too_few_rows() {
  Bytes file = data_file("png/exif_6.png");
  const Bytes tiny = data_file("png/1x1.png");
  const auto data = [](const Bytes& from) {
    const std::string name = "IDAT";
    return std::search(from.begin(), from.end(), name.begin(), name.end()) - from.begin() - 4;
  };
  const auto own = data(file), other = data(tiny);
  file.erase(file.begin() + own, file.end());
  file.insert(file.end(), tiny.begin() + other, tiny.end());
  return file;
}

TEST(PictureReader, TheFallbackIsAskedForAnOrientationThatIsNotKnown) {
  Bytes bytes = data_file("jpeg/exif_orientation_6.jpg");
  const Bytes tag = {0x12, 0x01, 0x03, 0x00}, turned = {0x01, 0x12, 0x00, 0x03};
  auto at = std::search(bytes.begin(), bytes.end(), tag.begin(), tag.end());
  const bool little = at != bytes.end();
  if (!little) at = std::search(bytes.begin(), bytes.end(), turned.begin(), turned.end());
  ASSERT_NE(at, bytes.end());
  at[little ? 2 : 3] = 11;  // a float
  const Painter painter(5, 5);
  PictureReader stored(&painter, [] { return "name"; }, nullptr);
  const codecs::PictureHeader header = stored.open(bytes);
  EXPECT_EQ(painter.calls, 0);
  const Painter fitting(header.width, header.height);
  PictureReader upright(&fitting, [] { return "name"; }, nullptr, true);
  EXPECT_EQ(upright.open(bytes).orientation, 3);
  EXPECT_EQ(fitting.calls, 1);
  EXPECT_EQ(upright.jpeg(), nullptr);
  PictureReader alone(nullptr, [] { return "name"; }, nullptr, true);
  EXPECT_EQ(alone.open(bytes).orientation, 1);
}

TEST(PictureReader, SoundFilesOfKnownFormatsNeedNoFallback) {
  const Painter painter(5, 5);
  PictureReader reader(&painter, [] { return "name"; }, nullptr);
  for (const char* name : {"jpeg/420_33x15.jpg", "png/rgb8.png", "webp/lossy.webp"}) {
    const Bytes bytes = data_file(name);
    const codecs::PictureHeader header = reader.open(bytes);
    const base::ImageView view = reader.decode({1, 2, 3, header.height - 2});
    EXPECT_EQ(view.width, 3);
    EXPECT_EQ(view.height, header.height - 2);
    EXPECT_EQ(reader.jpeg() != nullptr, header.format == codecs::ImageFormat::jpeg);
  }
  EXPECT_EQ(painter.calls, 0);
}

TEST(PictureReader, AFallbackHasTheLastWord) {
  Bytes png = data_file("png/rgb8.png"), webp = data_file("webp/lossy.webp"),
        jpeg = data_file("jpeg/420_33x15.jpg");
  png.resize(png.size() - 1);
  webp.resize(webp.size() - 1);
  jpeg.resize(100);
  const Painter painter(6, 7);
  PictureReader reader(&painter, [] { return "name"; }, nullptr);
  for (const Bytes& bytes : {png, webp, jpeg, Bytes{'G', 'I', 'F', '8'}}) {
    const codecs::PictureHeader header = reader.open(bytes);
    EXPECT_EQ(header.width, 6);
    EXPECT_EQ(header.height, 7);
    EXPECT_EQ(header.orientation, 3);
    const base::ImageView view = reader.decode({2, 3, 4, 4});
    EXPECT_EQ(view.row(3)[12], Painter::kColor);
    EXPECT_EQ(reader.jpeg(), nullptr);
  }
  EXPECT_EQ(painter.calls, 4);
}

TEST(PictureReader, DamageThatShowsInDecodingGoesToTheFallback) {
  const Bytes bytes = with_too_few_rows();
  const Painter painter(5, 4), other_size(4, 5);
  PictureReader reader(&painter, [] { return "name"; }, nullptr);
  EXPECT_EQ(reader.open(bytes).orientation, 6);
  EXPECT_EQ(reader.decode({1, 1, 2, 2}).row(1)[4], Painter::kColor);
  EXPECT_EQ(painter.calls, 1);
  EXPECT_NE(std::string(error_of(&other_size, bytes, true).what()).find("too few"), std::string::npos)
      << "a crop may not fit";
  EXPECT_EQ(error_of(nullptr, bytes, true).kind(), ErrorKind::corrupt_data);
}

TEST(PictureReader, ModesAreThoseOfTheFiles) {
  const Painter painter(5, 5);
  const auto opens = [&](ModeRule modes, const std::string& name) {
    PictureReader reader(&painter, [] { return "name"; }, nullptr, false, modes);
    try {
      return reader.open(data_file(name)).width > 0;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unavailable) << name;
      return false;
    }
  };
  for (const char* rgb : {"jpeg/420_q75.jpg", "jpeg/rgb.jpg", "png/rgb8.png"})
    for (const ModeRule modes : {ModeRule::any, ModeRule::rgb, ModeRule::grey_or_rgb})
      EXPECT_TRUE(opens(modes, rgb)) << rgb;
  for (const char* grey : {"jpeg/grey_q85.jpg", "png/grey8.png"}) {
    EXPECT_TRUE(opens(ModeRule::grey_or_rgb, grey)) << grey;
    EXPECT_FALSE(opens(ModeRule::rgb, grey)) << grey;
  }
  for (const char* other :
       {"jpeg/cmyk.jpg", "png/palette8.png", "png/grey1.png", "png/rgb_alpha8.png", "png/rgb16.png"}) {
    EXPECT_FALSE(opens(ModeRule::rgb, other)) << other;
    EXPECT_FALSE(opens(ModeRule::grey_or_rgb, other)) << other;
  }
  EXPECT_EQ(painter.calls, 0) << "who wants a mode is told, and Pillow is not asked to convert";
}

TEST(PictureReader, OfTwoRefusalsTheOneThatKnowsTheOffsetIsTold) {
  Bytes png = data_file("png/rgb8.png");
  png.resize(png.size() - 1);
  const Painter refuses(0, 0);
  const Error damaged = error_of(&refuses, png);
  EXPECT_EQ(std::string(damaged.what()).find("painter"), std::string::npos);
  EXPECT_GT(damaged.offset(), 0);
  EXPECT_NE(std::string(error_of(&refuses, {'G', 'I', 'F', '8'}).what()).find("painter"), std::string::npos);
  EXPECT_EQ(error_of(nullptr, {'G', 'I', 'F', '8'}).kind(), ErrorKind::unavailable);
}

}  // namespace
}  // namespace millrace::loader
