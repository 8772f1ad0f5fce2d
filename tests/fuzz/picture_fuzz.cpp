// Fuzz target for PNG and WebP: probe, then decode a region that the input's last bytes choose.
//
// Anything but a picture, Error(corrupt_data) or Error(unavailable) is a bug: the process aborts. A PNG is tried as it is, and once
// more with its checksums put right, without which no damage would come any further. The region lies at the end of an exact
// allocation, so that the address sanitizer sees a write behind it.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <libdeflate.h>

#include "codecs/picture_decoder.h"
#include "millrace/error.h"

namespace {

using namespace millrace;

void try_decode(std::span<const uint8_t> bytes) {
  constexpr int64_t kMostPixels = 1'000'000;  // larger pictures cost time and show nothing more
  static PictureDecoder decoder;
  try {
    const PictureHeader header = decoder.probe(bytes);
    if (int64_t{header.width} * header.height > kMostPixels) return;
    uint32_t choice[4] = {};
    for (size_t i = 0; i < 8 && i < bytes.size(); ++i) choice[i / 2] = choice[i / 2] << 8 | bytes[bytes.size() - 1 - i];
    const auto pick = [](uint32_t from, int32_t range) { return static_cast<int32_t>(from % static_cast<uint32_t>(range)); };
    Rect region;
    region.left = pick(choice[0], header.width);
    region.top = pick(choice[1], header.height);
    region.width = 1 + pick(choice[2], header.width - region.left);
    region.height = 1 + pick(choice[3], header.height - region.top);
    const auto pixels =
        std::make_unique<uint8_t[]>(static_cast<size_t>(region.width) * static_cast<size_t>(region.height) * kPixelBytes);
    decoder.decode(region, {pixels.get(), region.width, region.height, ptrdiff_t{region.width} * kPixelBytes});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::corrupt_data && error.kind() != ErrorKind::unavailable) {
      std::fprintf(stderr, "unexpected error: %s\n", error.what());
      std::abort();
    }
  }
}

void put_checksums_right(std::vector<uint8_t>& png) {
  size_t at = 8;
  while (at + 12 <= png.size()) {
    const size_t length = size_t{png[at]} << 24 | size_t{png[at + 1]} << 16 | size_t{png[at + 2]} << 8 | png[at + 3];
    if (length > png.size() - at - 12) return;
    const uint32_t sum = libdeflate_crc32(0, png.data() + at + 4, length + 4);
    for (size_t i = 0; i < 4; ++i) png[at + 8 + length + i] = static_cast<uint8_t>(sum >> (24 - 8 * i));
    at += length + 12;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  if (sniff(bytes) == ImageFormat::jpeg) return 0;  // jpeg_fuzz has it
  try_decode(bytes);
  if (sniff(bytes) != ImageFormat::png) return 0;
  std::vector<uint8_t> mended(bytes.begin(), bytes.end());
  put_checksums_right(mended);
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[size]);
  std::copy(mended.begin(), mended.end(), exact.get());
  try_decode({exact.get(), size});
  return 0;
}
