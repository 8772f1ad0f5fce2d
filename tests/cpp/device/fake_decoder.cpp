#include "fake_decoder.h"

#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "codecs/jpeg_decoder.h"
#include "millrace/error.h"
#include "transforms/pixel_buffer.h"

namespace millrace::device {
namespace {

uint64_t sum_of(std::span<const uint8_t> bytes) {
  uint64_t sum = bytes.size();
  for (const uint8_t byte : bytes) sum = (sum ^ byte) * 1099511628211u;
  return sum;
}

// RGB with rows of width * 3 bytes.
void decode_rgb(std::span<const uint8_t> bytes, const base::Rect& region, uint8_t* to) {
  transforms::PixelBuffer pixels;
  const base::ImageView view = pixels.resize(region.width, region.height);
  codecs::JpegDecoder(codecs::JpegRule::strict).decode(bytes, codecs::probe_jpeg(bytes), region, view);
  for (int32_t y = 0; y < view.height; ++y)
    for (int32_t x = 0; x < view.width; ++x, to += 3)
      std::memcpy(to, view.row(y) + ptrdiff_t{x} * base::kPixelBytes, 3);
}

}  // namespace

FakeDecoder::FakeDecoder(std::shared_ptr<FakeDevice> device, Options options, std::shared_ptr<Counts> counts)
    : device_(std::move(device)), options_(std::move(options)), counts_(std::move(counts)) {}
FakeDecoder::~FakeDecoder() { device_->finish(); }

size_t FakeDecoder::plan(std::span<const JpegRequest> requests, std::vector<JpegResult>& results) {
  results.assign(requests.size(), {});
  size_t bytes = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    JpegResult& result = results[i];
    if (!options_.refuses_late && options_.refuses && options_.refuses(requests[i].bytes)) {
      result.problem = "the fake decoder does not like it";
      ++counts_->refused;
      continue;
    }
    result.width = requests[i].region.width;
    result.height = requests[i].region.height;
    result.pitch_bytes = result.width * 3;
    result.offset = bytes;
    bytes += (static_cast<size_t>(result.pitch_bytes) * static_cast<size_t>(result.height) + 255) / 256 * 256;
  }
  return bytes;
}

void FakeDecoder::decode(std::span<const JpegRequest> requests, std::vector<JpegResult>& results,
                         void* memory, void* stream) {
  const auto on = reinterpret_cast<StreamId>(stream);
  for (size_t i = 0; i < requests.size(); ++i) {
    JpegResult& result = results[i];
    if (!result.problem.empty()) continue;
    auto* const to = static_cast<uint8_t*>(memory) + result.offset;
    const JpegRequest request = requests[i];
    const size_t size = static_cast<size_t>(result.pitch_bytes) * static_cast<size_t>(result.height);
    if (options_.per_picture.count() > 0) {
      device_->launch(on, [to, size, time = options_.per_picture] {
        std::memset(to, 7, size);
        std::this_thread::sleep_for(time);
      });
      ++counts_->decoded;
      continue;
    }
    try {
      if (options_.refuses_late && options_.refuses && options_.refuses(request.bytes))
        throw Error(ErrorKind::corrupt_data, "refused");
      std::vector<uint8_t> trial(size);
      decode_rgb(request.bytes, request.region, trial.data());
    } catch (const Error& error) {
      result.problem = error.what();
      ++counts_->refused;
      device_->launch(on, [to, size] { std::memset(to, 0x99, size); });  // a part of it
      continue;
    }
    ++counts_->decoded;
    device_->launch(on, [to, size, request, before = sum_of(request.bytes), counts = counts_] {
      std::memset(to, 0xDD, size);
      if (sum_of(request.bytes) != before) {
        ++counts->changed_files;
        return;
      }
      try {
        decode_rgb(request.bytes, request.region, to);
      } catch (const Error&) {  // it changed just now
        ++counts->changed_files;
      }
    });
  }
}

loader::DeviceDecoding fake_decoding(const std::shared_ptr<FakeDevice>& device, FakeDecoder::Options options,
                                     std::shared_ptr<FakeDecoder::Counts> counts) {
  loader::DeviceDecoding decoding;
  const bool only_time = options.per_picture.count() > 0;
  decoding.decoder = std::make_unique<FakeDecoder>(device, std::move(options), std::move(counts));
  decoding.augment = [device, only_time](auto pictures, auto augmentations, auto mean, auto std,
                                         const BatchImages& out, void* workspace, void* stream) {
    if (only_time) return;
    device->launch(reinterpret_cast<StreamId>(stream),
                   [pictures = std::vector<DecodedPicture>(pictures.begin(), pictures.end()),
                    augmentations = std::vector<Augmentation>(augmentations.begin(), augmentations.end()),
                    mean = std::vector<double>(mean.begin(), mean.end()),
                    std = std::vector<double>(std.begin(), std.end()), out,
                    workspace] { fused_augment(pictures, augmentations, mean, std, out, workspace, {}); });
  };
  return decoding;
}

}  // namespace millrace::device
