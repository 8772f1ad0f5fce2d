#include "codecs/jpeg_decoder.h"

#include <string>

#include "codecs/baseline_decoder.h"
#include "millrace/error.h"

namespace millrace::codecs {
namespace {

// A JPEG without its end marker has lost its tail. The marker cannot occur inside entropy-coded data, so
// looking for it from the back costs nothing on sound files, and makes truncation an error for every region
// alike, as it is for Pillow.
bool has_end_marker(std::span<const uint8_t> bytes) {
  for (size_t i = bytes.size(); i-- > 1;)
    if (bytes[i] == 0xD9 && bytes[i - 1] == 0xFF) return true;
  return false;
}

}  // namespace

struct JpegDecoder::Impl {
  JpegRule rule;
  BaselineDecoder baseline;
  bool used_baseline = false;
};

JpegDecoder::JpegDecoder(JpegRule rule) : impl_(std::make_unique<Impl>(rule)) {}
JpegDecoder::~JpegDecoder() = default;

void JpegDecoder::decode(std::span<const uint8_t> bytes, const JpegHeader& header, base::Rect region,
                         base::ImageView out) {
  if (region.left < 0 || region.top < 0 || region.width <= 0 || region.height <= 0 ||
      int64_t{region.left} + region.width > header.width ||
      int64_t{region.top} + region.height > header.height)
    throw Error(ErrorKind::invalid_argument,
                "region " + std::to_string(region.width) + " x " + std::to_string(region.height) + " at (" +
                    std::to_string(region.left) + ", " + std::to_string(region.top) +
                    ") is not inside the picture of " + std::to_string(header.width) + " x " +
                    std::to_string(header.height));
  if (out.width != region.width || out.height != region.height)
    throw Error(ErrorKind::invalid_argument,
                "output of " + std::to_string(out.width) + " x " + std::to_string(out.height) +
                    " does not have the region's size " + std::to_string(region.width) + " x " +
                    std::to_string(region.height));
  if (header.precision != 8)
    throw Error(ErrorKind::corrupt_data,
                "JPEG with " + std::to_string(header.precision) +
                    " bits per sample: only 8 are supported (by Pillow too); convert the file");
  if (!has_end_marker(bytes))
    throw Error(
        ErrorKind::corrupt_data,
        "JPEG has no end marker: the file is truncated after " + std::to_string(bytes.size()) + " bytes", {},
        static_cast<int64_t>(bytes.size()));
  if (impl_->rule == JpegRule::strict) refuse_odd(header);
  impl_->used_baseline = impl_->baseline.decode(bytes, region, out);
  if (!impl_->used_baseline) libjpeg_decode(bytes, header, region, out, impl_->rule);
}

bool JpegDecoder::decodes_in_parts(std::span<const uint8_t> bytes, const JpegHeader& header) {
  return header.precision == 8 && !header.oddity && impl_->baseline.takes(bytes);
}

bool JpegDecoder::used_baseline() const { return impl_->used_baseline; }

}  // namespace millrace::codecs
