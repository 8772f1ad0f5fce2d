// Fuzz target for PNG and WebP: probe, then decode a region that the input's last bytes choose.
//
// Anything but a picture, Error(corrupt_data) or Error(unavailable) is a bug: the process aborts. A PNG is
// tried as it is, and once more with its checksums put right, without which no damage would come any further.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <libdeflate.h>

#include "codecs/picture_decoder.h"
#include "fuzz_region.h"
#include "millrace/error.h"

namespace {

using namespace millrace;

void try_decode(std::span<const uint8_t> bytes) {
  constexpr int64_t kMostPixels = 1'000'000;  // larger pictures cost time and show nothing more
  static codecs::PictureDecoder decoder;
  try {
    const codecs::PictureHeader header = decoder.probe(bytes);
    if (int64_t{header.width} * header.height > kMostPixels) return;
    const FuzzRegion region(bytes, header.width, header.height);
    decoder.decode(region.place, region.pixels());
  } catch (const Error& error) {
    check(error.kind() == ErrorKind::corrupt_data || error.kind() == ErrorKind::unavailable, error.what());
  }
}

void put_checksums_right(std::vector<uint8_t>& png) {
  size_t at = 8;
  while (at + 12 <= png.size()) {
    const size_t length =
        size_t{png[at]} << 24 | size_t{png[at + 1]} << 16 | size_t{png[at + 2]} << 8 | png[at + 3];
    if (length > png.size() - at - 12) return;
    const uint32_t sum = libdeflate_crc32(0, png.data() + at + 4, length + 4);
    for (size_t i = 0; i < 4; ++i) png[at + 8 + length + i] = static_cast<uint8_t>(sum >> (24 - 8 * i));
    at += length + 12;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  if (codecs::sniff(bytes) == codecs::ImageFormat::jpeg) return 0;  // jpeg_fuzz has it
  try_decode(bytes);
  if (codecs::sniff(bytes) != codecs::ImageFormat::png) return 0;
  std::vector<uint8_t> mended(bytes.begin(), bytes.end());
  put_checksums_right(mended);
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[size]);
  std::copy(mended.begin(), mended.end(), exact.get());
  try_decode({exact.get(), size});
  return 0;
}
