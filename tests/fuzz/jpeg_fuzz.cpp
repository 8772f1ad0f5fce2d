// Fuzz target for the JPEG path: probe, then decode a region that the input's last bytes choose.
//
// Anything but a picture or Error(corrupt_data) is a bug: the process aborts.
#include <cstdint>
#include <span>

#include "codecs/jpeg_decoder.h"
#include "fuzz_region.h"
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
    const FuzzRegion region(bytes, header.width, header.height);
    decoder.decode(bytes, header, region.place, region.pixels());
  } catch (const Error& error) {
    check(error.kind() == ErrorKind::corrupt_data, error.what());
  }
  return 0;
}
