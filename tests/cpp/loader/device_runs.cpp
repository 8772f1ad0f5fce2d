#include "device_runs.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "../test_data.h"
#include "codecs/jpeg_decoder.h"
#include "millrace/error.h"

namespace millrace::loader {
namespace {

using Status = DataLoader::Status;

constexpr std::string_view kMagic = "P6 not a JPEG ";

std::string test_jpeg(const std::string& name) {
  std::ifstream file(test_data("jpeg/" + name + ".jpg"), std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

// Decodes a JPEG that stands behind kMagic, as a picture of another format.
class DisguisedJpeg final : public FallbackDecoder {
 public:
  void decode(std::span<const uint8_t> bytes, const std::string& path, transforms::PixelBuffer& out,
              int* orientation) const override {
    const auto jpeg = bytes.subspan(std::min(bytes.size(), kMagic.size()));
    if (bytes.size() <= kMagic.size())
      throw Error(ErrorKind::corrupt_data, "cannot identify image file '" + path + "'", path);
    const codecs::JpegHeader header = codecs::probe_jpeg(jpeg);
    *orientation = header.orientation;
    codecs::JpegDecoder().decode(jpeg, header, {0, 0, header.width, header.height},
                                 out.resize(header.width, header.height));
  }
};

std::vector<std::string> paths_of(const LoaderStats& stats) {
  std::vector<std::string> result;
  for (const SampleError& error : stats.errors) result.push_back(error.path + error.reason);
  return result;
}

}  // namespace

std::shared_ptr<ImageDataset> DeviceLoaderTest::dataset(bool damaged, std::vector<TransformSpec> chain) {
  const std::vector<std::string> names = {"420_q75", "444_q90",         "cmyk",     "grey_q85",
                                          "422_q90", "progressive_420", "420_q100", "420_q30"};
  auto paths = std::make_shared<sources::PathTable>();
  auto result = std::make_shared<ImageDataset>();
  for (int i = 0; i < 48; ++i) {
    std::string bytes = test_jpeg(names[static_cast<size_t>(i) % names.size()]);
    if (i % 13 == 5) bytes = std::string(kMagic) + bytes;
    if (damaged && i % 11 == 4) bytes.resize(bytes.size() / 2);  // the CPU sees it at once
    if (damaged && i % 7 == 1)
      bytes = bytes.substr(0, bytes.size() / 4) + "\xFF\xD9";  // only who decodes it does
    if (damaged && i == 30) bytes = kMagic;
    paths->append(folder_.write(std::to_string(damaged) + std::to_string(i) + ".jpg", bytes));
    result->labels.push_back(i * 3);
  }
  result->files = std::make_shared<sources::PathFiles>(paths);
  result->views.push_back(transforms::ImagePipeline::create(std::move(chain)));
  result->fallback = std::make_shared<DisguisedJpeg>();
  return result;
}

std::vector<std::vector<int64_t>> lists(int64_t samples, int64_t size) {
  std::vector<std::vector<int64_t>> result;
  for (int64_t i = 0; i < samples; ++i) {
    if (i % size == 0) result.emplace_back();
    result.back().push_back((i * 7 + 3) % samples);
  }
  return result;
}

Outcome on_the_cpu(const std::shared_ptr<ImageDataset>& images, ErrorPolicy policy, bool drop_last,
                   int epochs) {
  const auto loader = DataLoader::create(images, {2, 3, policy, drop_last, {}});
  Outcome run;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    loader->start_epoch(9, static_cast<uint64_t>(epoch));
    for (const auto& list : lists()) loader->submit(list);
    loader->end_epoch();
    for (;;) {
      Batch batch;
      Seen& seen = run.seen.emplace_back();
      try {
        if (loader->next(batch, 60'000) == Status::end) break;
        const uint8_t* block = batch.images.data();
        for (const auto& shape : batch.parts.empty() ? std::vector{batch.shape} : batch.parts) {
          const size_t row_bytes = static_cast<size_t>(shape.elements()) * base::dtype_bytes(batch.type);
          seen.images.insert(seen.images.end(), block, block + static_cast<size_t>(batch.rows) * row_bytes);
          block += static_cast<size_t>(batch.block_rows) * row_bytes;
        }
        seen.labels = batch.labels;
      } catch (const Error& error) {
        seen.error = error.what();
      }
    }
    run.seen.pop_back();
  }
  run.left_out = paths_of(loader->stats());
  return run;
}

DeviceOutcome on_the_device(const std::shared_ptr<ImageDataset>& images, Setup setup) {
  DeviceOutcome run;
  auto fake = std::make_shared<device::FakeDevice>(
      device::FakeDevice::Options{.seed = setup.seed, .threads = setup.device_threads});
  std::deque<Seen> read;  // by kernels, which know their place
  {
    DeviceLoaderOptions options;
    options.loader = {setup.threads, 3, setup.policy, setup.drop_last, {}};
    options.balances = setup.balances;
    options.ahead = setup.ahead;
    DeviceLoader loader(images, options, std::make_shared<device::Forgetful>(fake, setup.forgotten),
                        device::fake_decoding(fake, setup.decoder, run.counts));
    for (int epoch = 0; epoch < setup.epochs; ++epoch) {
      loader.start_epoch(9, static_cast<uint64_t>(epoch));
      for (const auto& list : lists()) loader.submit(list);
      loader.end_epoch();
      for (;;) {
        DeviceBatch batch;
        try {
          const Status status = loader.next(batch, 60'000);
          if (status == Status::end) break;
          if (status == Status::pending) throw std::runtime_error("no batch for a minute");
        } catch (const Error& error) {
          read.emplace_back().error = error.what();
          continue;
        }
        Seen& seen = read.emplace_back();
        std::vector<std::pair<const void*, size_t>> views;
        size_t bytes = 0;
        for (const auto& [shape, images_there] : batch.views) {
          views.emplace_back(images_there.data(), static_cast<size_t>(batch.rows * shape.elements()) *
                                                      base::dtype_bytes(batch.type));
          bytes += views.back().second;
        }
        seen.images.resize(bytes);
        seen.labels.resize(static_cast<size_t>(batch.rows));
        fake->launch(0, [&seen, views, labels = batch.labels.data()] {
          uint8_t* to = seen.images.data();
          for (const auto& [pixels, size] : views)
            to = std::copy_n(static_cast<const uint8_t*>(pixels), size, to);
          std::memcpy(seen.labels.data(), labels, seen.labels.size() * sizeof(int64_t));
        });
      }
    }
    run.left_out = paths_of(loader.stats());
    run.left = loader.left_to_device();
  }
  fake->finish();
  run.seen.assign(read.begin(), read.end());
  run.changed_sources = fake->changed_sources() + run.counts->changed_files;
  return run;
}

}  // namespace millrace::loader
