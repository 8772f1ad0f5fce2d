// decode="auto": of pictures that take a while, device and threads make shares by their speeds.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>  // before jpeglib.h
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include <jpeglib.h>

#include "../device/fake_decoder.h"
#include "../scratch_folder.h"
#include "base/clock.h"
#include "loader/device_loader.h"
#include "loader/image_dataset.h"

namespace millrace::loader {
namespace {

using std::chrono::microseconds;

// Sharing, with a device that is slow or fast against the CPU: the time of an epoch that is near the better
// one alone.
struct Speed {
  double seconds;
  double left;  // share of the pictures
};

Speed speed(const std::shared_ptr<ImageDataset>& images, bool balances, microseconds per_picture,
            size_t decoded_bytes = 1 << 30) {
  auto fake = std::make_shared<device::FakeDevice>(device::FakeDevice::Options{.threads = true});
  DeviceLoaderOptions options{
      .loader = {1, 3, ErrorPolicy::raise, false, {}}, .balances = balances, .decoded_bytes = decoded_bytes};
  device::FakeDecoder::Options decoder;
  decoder.per_picture = per_picture;
  DeviceLoader loader(images, options, fake,
                      device::fake_decoding(fake, decoder, std::make_shared<device::FakeDecoder::Counts>()));
  const auto size = images->files->size();
  DeviceBatch batch;
  Speed result{};
  for (int epoch = 0; epoch < 2; ++epoch) {  // the first one to get to know the speeds
    const int64_t before = loader.left_to_device(), start = base::now_ns();
    loader.start_epoch(9, static_cast<uint64_t>(epoch));
    for (int64_t first = 0; first < size; first += 16) {
      std::vector<int64_t> list(16);
      std::iota(list.begin(), list.end(), first);
      loader.submit(list);
    }
    while (loader.next(batch, 60'000) == DeviceLoader::Status::ready) {
    }
    result = {static_cast<double>(base::now_ns() - start) * 1e-9,
              static_cast<double>(loader.left_to_device() - before) / static_cast<double>(size)};
  }
  return result;
}

// Large enough that decoding is what takes time, whatever a small batch costs besides.
std::string large_jpeg(JDIMENSION side) {
  jpeg_compress_struct encoder{};
  jpeg_error_mgr errors{};
  encoder.err = jpeg_std_error(&errors);
  jpeg_create_compress(&encoder);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&encoder, &bytes, &size);
  encoder.image_width = encoder.image_height = side;
  encoder.input_components = 3;
  encoder.in_color_space = JCS_RGB;
  jpeg_set_defaults(&encoder);
  jpeg_set_quality(&encoder, 90, TRUE);
  jpeg_start_compress(&encoder, TRUE);
  std::vector<uint8_t> row(size_t{side} * 3);
  uint32_t random = 1;
  for (JDIMENSION y = 0; y < side; ++y) {
    for (uint8_t& value : row) value = static_cast<uint8_t>((random = random * 1664525 + 1013904223) >> 27);
    uint8_t* line = row.data();
    jpeg_write_scanlines(&encoder, &line, 1);
  }
  jpeg_finish_compress(&encoder);
  jpeg_destroy_compress(&encoder);
  std::string result(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return result;
}

// With `count` x 64 KiB of metadata.
std::string with_metadata(std::string jpeg, int count) {
  std::string segment = "\xFF\xEF\xFF\xFF";  // APP15, and its length
  segment.resize(2 + 0xFFFF);
  std::string all;
  for (int i = 0; i < count; ++i) all += segment;
  return jpeg.insert(2, all);
}

TEST(SharedDecoding, LongFilesWithSmallPicturesAreLeftWithinTheBudgetOfBytes) {
  constexpr int kPictures = 64;
  constexpr size_t kPicture = 64 * 64 * 3 + 256;
  const ScratchFolder folder;
  const std::string file = folder.write("one.jpg", with_metadata(large_jpeg(64), 64));  // 4 MiB
  auto images = std::make_shared<ImageDataset>();
  auto paths = std::make_shared<sources::PathTable>();
  for (int i = 0; i < kPictures; ++i) paths->append(file);
  images->files = std::make_shared<sources::PathFiles>(paths);
  images->labels.assign(kPictures, 0);
  images->views.push_back(transforms::ImagePipeline::create({Resize{16, 16}, ToTensor{OutputType::u8}}));
  // The budget would do for more decoded pictures than there are, but for three files only.
  const Speed tight = speed(images, false, microseconds(1000), size_t{13} << 20);
  static_assert(kPictures * kPicture < size_t{13} << 20);
  EXPECT_LT(tight.left, 0.5);  // the others were made by threads meanwhile
  EXPECT_GT(tight.left, 0);
}

TEST(SharedDecoding, FollowsTheSpeedsOfBothSides) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "speeds are not these under a sanitizer; device_loader_test has the same code at work";
#endif
  constexpr int kPictures = 160;
  const ScratchFolder folder;
  const std::string file = folder.write("one.jpg", large_jpeg(700));
  auto images = std::make_shared<ImageDataset>();
  auto paths = std::make_shared<sources::PathTable>();
  for (int i = 0; i < kPictures; ++i) paths->append(file);
  images->files = std::make_shared<sources::PathFiles>(paths);
  images->labels.assign(kPictures, 0);
  images->views.push_back(transforms::ImagePipeline::create({Resize{16, 16}, ToTensor{OutputType::u8}}));
  const Speed cpu = speed(images, false, microseconds(1), 0);
  EXPECT_EQ(cpu.left, 0);
  const auto one = static_cast<int64_t>(cpu.seconds / kPictures * 1e6);
  const Speed slow = speed(images, true, microseconds(one * 20)),
              fast = speed(images, true, microseconds(std::max<int64_t>(1, one / 20)));
  const Speed alike = speed(images, true, microseconds(one));
  EXPECT_LT(slow.left, 0.2);
  EXPECT_GT(fast.left, 2 * slow.left);  // on a busy machine, the fake device is no faster than this
  EXPECT_GT(alike.left, 0.1);
  EXPECT_LT(alike.left, 0.8);
  std::printf("cpu %.3f s; slow device %.3f s (%.2f left), alike %.3f s (%.2f), fast %.3f s (%.2f)\n",
              cpu.seconds, slow.seconds, slow.left, alike.seconds, alike.left, fast.seconds, fast.left);
}

}  // namespace
}  // namespace millrace::loader
