// Fuzz target for the JPEG path: probe, then decode a region that the input's last bytes choose, by both
// rules.
//
// Anything but a picture or Error(corrupt_data) is a bug: the process aborts. What the strict rule takes, the
// lenient one takes, too, to the same pixels.
#include <cstdint>
#include <cstring>
#include <span>

#include "codecs/jpeg_decoder.h"
#include "fuzz_region.h"
#include "millrace/error.h"

namespace {

using namespace millrace;

bool taken(codecs::JpegDecoder& decoder, std::span<const uint8_t> bytes, const codecs::JpegHeader& header,
           const FuzzRegion& region) {
  try {
    decoder.decode(bytes, header, region.place, region.pixels());
    return true;
  } catch (const Error& error) {
    check(error.kind() == ErrorKind::corrupt_data, error.what());
    return false;
  }
}

void check_same(base::ImageView one, base::ImageView other) {
  for (int32_t y = 0; y < one.height; ++y)
    for (int32_t x = 0; x < one.width; ++x)
      check(std::memcmp(one.row(y) + x * base::kPixelBytes, other.row(y) + x * base::kPixelBytes, 3) == 0,
            "pixels by the two rules");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kMostPixels = 4'000'000;  // larger pictures cost time and show nothing more
  static codecs::JpegDecoder lenient(codecs::JpegRule::lenient), strict(codecs::JpegRule::strict);
  const std::span<const uint8_t> bytes(data, size);
  codecs::sniff(bytes);
  try {
    const codecs::JpegHeader header = codecs::probe_jpeg(bytes);
    if (int64_t{header.width} * header.height > kMostPixels) return 0;
    const FuzzRegion region(bytes, header.width, header.height), again(bytes, header.width, header.height);
    const bool by_lenient = taken(lenient, bytes, header, region);
    if (!taken(strict, bytes, header, again)) return 0;
    check(by_lenient, "taken by the strict rule alone");
    check_same(region.pixels(), again.pixels());
  } catch (const Error& error) {
    check(error.kind() == ErrorKind::corrupt_data, error.what());
  }
  return 0;
}
