// Worker: the row of a file equals the chain on its fully decoded picture; every bad file is named, once.
#include "loader/worker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "../scratch_folder.h"
#include "../test_data.h"
#include "codecs/jpeg_decoder.h"
#include "loader/data_loader.h"
#include "millrace/error.h"

namespace millrace::loader {
namespace {

constexpr std::string_view kMagic = "P6 not a JPEG ";

std::string test_jpeg(const std::string& name) {
  std::ifstream file(test_data("jpeg/" + name + ".jpg"), std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Decodes a JPEG that stands behind kMagic, as a picture of a format that the engine does not know.
class DisguisedJpeg final : public FallbackDecoder {
 public:
  void decode(std::span<const uint8_t> bytes, const std::string& path, transforms::PixelBuffer& out,
              int* orientation) const override {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text.substr(0, kMagic.size()) != kMagic)
      throw Error(ErrorKind::corrupt_data, "cannot identify image file '" + path + "'");
    const auto jpeg = bytes.subspan(kMagic.size());
    const codecs::JpegHeader header = codecs::probe_jpeg(jpeg);
    *orientation = header.orientation;
    codecs::JpegDecoder().decode(jpeg, header, {0, 0, header.width, header.height},
                                 out.resize(header.width, header.height));
  }
};

class WorkerTest : public ::testing::Test {
 protected:
  std::shared_ptr<ImageDataset> dataset(const std::vector<std::string>& files,
                                        std::vector<TransformSpec> chain, bool with_fallback = true) {
    auto paths = std::make_shared<sources::PathTable>();
    for (const std::string& file : files) paths->append(file);
    auto result = std::make_shared<ImageDataset>();
    result->labels.assign(files.size(), 3);
    result->files = std::make_shared<sources::PathFiles>(paths);
    result->views.push_back(transforms::ImagePipeline::create(std::move(chain)));
    if (with_fallback) result->fallback = std::make_shared<DisguisedJpeg>();
    return result;
  }

  static std::vector<uint8_t> row(const std::shared_ptr<ImageDataset>& images, int64_t index) {
    trace::StageTimes times;
    Worker worker(images, &times);
    const transforms::OutputShape shape = worker.prepare({1, 2, index, 0});
    const auto elements = static_cast<size_t>(shape.channels * shape.height * shape.width);
    std::vector<uint8_t> result(elements * base::dtype_bytes(images->pipeline().output_type()));
    worker.finish({result.data()});
    EXPECT_GT(times.ns(trace::Stage::read), 0);
    EXPECT_GT(times.ns(trace::Stage::decode), 0);
    EXPECT_GT(times.ns(trace::Stage::transform), 0);
    return result;
  }

  Error error_of(const std::string& file, bool with_fallback = true) {
    try {
      row(dataset({file}, {CenterCrop{8, 8}, ToTensor{}}, with_fallback), 0);
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_EQ(error.path(), file);
      EXPECT_NE(text.find(file), std::string::npos) << text;
      EXPECT_EQ(text.find(file, text.find(file) + 1), std::string::npos) << "named twice: " << text;
      return error;
    }
    ADD_FAILURE() << file << " gave no error";
    return {ErrorKind::system, ""};
  }

  ScratchFolder folder_;
};

TEST_F(WorkerTest, ARowIsTheChainOnTheFullyDecodedPicture) {
  const std::vector<TransformSpec> chain = {RandomResizedCrop{20, 24}, HorizontalFlip{}, ToTensor{},
                                            Normalize{{0.5}, {0.25}}};
  for (const std::string name : {"420_33x15", "420_q75", "422_q90", "444_q90", "cmyk", "410_q85"}) {
    const std::string jpeg = test_jpeg(name), file = folder_.write(name + ".jpg", jpeg);
    const auto images = dataset({file, file, file, file}, chain);
    for (int64_t index = 0; index < 4; ++index) {
      const codecs::JpegHeader header = codecs::probe_jpeg(bytes_of(jpeg));
      transforms::PixelBuffer whole;
      const base::ImageView picture = whole.resize(header.width, header.height);
      codecs::JpegDecoder().decode(bytes_of(jpeg), header, {0, 0, header.width, header.height}, picture);
      const auto scratch = transforms::ImagePipeline::make_scratch();
      const auto params = images->pipeline().draw(header.width, header.height, 1, {1, 2, index, 0});
      const auto need = images->pipeline().plan(header.width, header.height, params, *scratch);
      std::vector<float> expected(3 * 20 * 24);
      uint8_t* const corner = picture.row(need.region.top) + need.region.left * base::kPixelBytes;
      images->pipeline().apply({corner, need.region.width, need.region.height, picture.stride_bytes},
                               *scratch, expected.data());
      const auto got = row(images, index);
      ASSERT_EQ(got.size(), expected.size() * sizeof(float));
      EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size()), 0) << name << " " << index;
    }
  }
}

TEST_F(WorkerTest, APictureOfTheFallbackGoesTheSameWay) {
  for (const std::string name : {"420_q75", "exif_orientation_6"}) {
    const std::string jpeg = test_jpeg(name);
    const std::string plain = folder_.write(name + ".jpg", jpeg);
    const std::string disguised = folder_.write(name + ".ppm", std::string(kMagic) + jpeg);
    const std::vector<TransformSpec> chain = {ExifTranspose{}, Resize{30, 0}, RandomCrop{16, 16},
                                              ToTensor{OutputType::u8}};
    EXPECT_EQ(row(dataset({plain}, chain), 0), row(dataset({disguised}, chain), 0)) << name;
  }
}

TEST_F(WorkerTest, BadFilesAreNamedWithTheRule) {
  const Error missing = error_of(folder_ / "missing.jpg");
  EXPECT_EQ(missing.kind(), ErrorKind::not_found);
  EXPECT_EQ(missing.code(), ENOENT);

  const Error empty = error_of(folder_.write("empty.jpg"));
  EXPECT_EQ(empty.kind(), ErrorKind::corrupt_data);
  EXPECT_NE(std::string(empty.what()).find("is empty (0 bytes)"), std::string::npos);

  const std::string jpeg = test_jpeg("420_q75");
  EXPECT_EQ(error_of(folder_.write("cut.jpg", jpeg.substr(0, jpeg.size() / 8))).kind(),
            ErrorKind::corrupt_data);
  EXPECT_EQ(error_of(folder_.write("text.jpg", "hello")).kind(), ErrorKind::corrupt_data);
  EXPECT_EQ(error_of(folder_.write("gif.jpg", "GIF89a and so on"), false).kind(), ErrorKind::unavailable);
  EXPECT_EQ(error_of(folder_.write("png.jpg", "\x89PNG\r\n\x1a\n and so on"), false).kind(),
            ErrorKind::corrupt_data);
}

TEST_F(WorkerTest, TheLoaderGivesTheWorkersRows) {
  const std::string file = folder_.write("a.jpg", test_jpeg("420_q75"));
  const std::string bad = folder_.write("b.jpg");
  const auto images = dataset({file, bad, file}, {RandomResizedCrop{8, 8}, ToTensor{}});
  for (const int threads : {0, 2}) {
    const auto loader = DataLoader::create(images, {threads, 3, ErrorPolicy::replace, false});
    loader->start_epoch(1, 2);
    loader->submit({0, 1, 2});
    loader->end_epoch();
    Batch batch;
    while (loader->next(batch, 1000) == DataLoader::Status::pending) {
    }
    ASSERT_EQ(batch.rows, 3);
    EXPECT_EQ(batch.labels, (std::vector<int64_t>{3, 3, 3}));
    for (int64_t r = 0; r < 3; ++r) {
      const auto expected = row(images, r == 1 ? 2 : r);
      const uint8_t* got = batch.images.data() + static_cast<size_t>(r) * expected.size();
      EXPECT_EQ(std::memcmp(got, expected.data(), expected.size()), 0) << r;
    }
    const LoaderStats stats = loader->stats();
    ASSERT_EQ(stats.errors.size(), 1u);
    EXPECT_EQ(stats.errors[0].path, bad);
    EXPECT_GT(stats.decode_seconds, 0);
  }
}

}  // namespace
}  // namespace millrace::loader
