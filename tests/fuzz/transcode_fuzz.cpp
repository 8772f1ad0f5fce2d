// Fuzz target for the lossless transcode: a file that is taken must come out with the pixels it had, whole
// and in parts.
//
// Anything but that or Error(corrupt_data) is a bug: the process aborts.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "codecs/jpeg_decoder.h"
#include "codecs/jpeg_transcode.h"
#include "codecs/libjpeg_decoder.h"
#include "millrace/error.h"

namespace {

using namespace millrace;

std::vector<uint8_t> colours(std::span<const uint8_t> bytes, const codecs::JpegHeader& header,
                             base::Rect region, codecs::JpegDecoder* decoder) {
  std::vector<uint8_t> pixels(static_cast<size_t>(region.width) * static_cast<size_t>(region.height) *
                              base::kPixelBytes);
  const base::ImageView view{pixels.data(), region.width, region.height,
                             ptrdiff_t{region.width} * base::kPixelBytes};
  if (decoder)
    decoder->decode(bytes, header, region, view);
  else
    codecs::libjpeg_decode(bytes, header, region, view);
  for (size_t i = 3; i < pixels.size(); i += base::kPixelBytes) pixels[i] = 0;
  return pixels;
}

void check(std::span<const uint8_t> bytes, const std::vector<uint8_t>& made, base::Rect region) {
  static codecs::JpegDecoder decoder;
  const codecs::JpegHeader before = codecs::probe_jpeg(bytes), after = codecs::probe_jpeg(made);
  if (before.orientation == after.orientation &&
      colours(bytes, before, region, nullptr) == colours(made, after, region, &decoder))
    return;
  std::fprintf(stderr, "other pixels\n");
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kMostPixels = 1'000'000;
  const std::span<const uint8_t> bytes(data, size);
  try {
    const codecs::JpegHeader header = codecs::probe_jpeg(bytes);
    if (int64_t{header.width} * header.height > kMostPixels) return 0;
    const std::vector<uint8_t> made =
        codecs::transcode_jpeg(bytes, {data[size - 1] % 40, data[size - 2] % 2 == 1});
    check(bytes, made, {0, 0, header.width, header.height});
    check(bytes, made,
          {header.width / 3, header.height / 4, (header.width + 2) / 3, (header.height + 1) / 2});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::corrupt_data) {
      std::fprintf(stderr, "unexpected error: %s\n", error.what());
      std::abort();
    }
  }
  return 0;
}
