// Fuzz target for the JPEG path: probe, then decode a region that the input's last bytes choose.
//
// Anything but a picture or Error(corrupt_data) is a bug: the process aborts. The region lies at the end of an exact allocation,
// so that the address sanitizer sees a write behind it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "codecs/jpeg_decoder.h"
#include "millrace/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  constexpr int64_t kMostPixels = 4'000'000;  // larger pictures cost time and show nothing more
  static JpegDecoder decoder;
  const std::span<const uint8_t> bytes(data, size);
  sniff(bytes);
  try {
    const JpegHeader header = probe_jpeg(bytes);
    if (int64_t{header.width} * header.height > kMostPixels) return 0;
    uint32_t choice[4] = {};
    for (size_t i = 0; i < 8 && i < size; ++i) choice[i / 2] = choice[i / 2] << 8 | data[size - 1 - i];
    const auto pick = [](uint32_t from, int32_t range) { return static_cast<int32_t>(from % static_cast<uint32_t>(range)); };
    Rect region;
    region.left = pick(choice[0], header.width);
    region.top = pick(choice[1], header.height);
    region.width = 1 + pick(choice[2], header.width - region.left);
    region.height = 1 + pick(choice[3], header.height - region.top);
    const auto pixels =
        std::make_unique<uint8_t[]>(static_cast<size_t>(region.width) * static_cast<size_t>(region.height) * kPixelBytes);
    decoder.decode(bytes, header, region, {pixels.get(), region.width, region.height, ptrdiff_t{region.width} * kPixelBytes});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::corrupt_data) {
      std::fprintf(stderr, "unexpected error: %s\n", error.what());
      std::abort();
    }
  }
  return 0;
}
