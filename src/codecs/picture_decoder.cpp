#include "codecs/picture_decoder.h"

#include <string>
#include <variant>

#include "codecs/jpeg_decoder.h"
#include "codecs/png_decoder.h"
#include "codecs/webp_decoder.h"

namespace millrace::codecs {
namespace {

void refuse_large(const PictureHeader& header, int64_t most_quiet_pixels) {
  const int64_t pixels = int64_t{header.width} * header.height;
  if (pixels > most_quiet_pixels)
    throw Error(
        ErrorKind::unavailable,
        std::string(format_name(header.format)) + " has " + std::to_string(header.width) + " x " +
            std::to_string(header.height) + " = " + std::to_string(pixels) + " pixels: from " +
            std::to_string(most_quiet_pixels) +
            " on Pillow refuses or warns by limits of its own, which only it applies; shrink the picture");
}

StoredMode mode_of(const JpegHeader& header) {
  if (header.precision != 8) return StoredMode::other;
  return header.components == 3   ? StoredMode::rgb
         : header.components == 1 ? StoredMode::grey
                                  : StoredMode::other;
}

StoredMode mode_of(const PngFile& file) {
  if (file.depth != 8) return StoredMode::other;
  return file.color == PngColor::rgb    ? StoredMode::rgb
         : file.color == PngColor::grey ? StoredMode::grey
                                        : StoredMode::other;
}

StoredMode mode_of(const WebPFile&) { return StoredMode::other; }

// Counts what looks like scans, thumbnails' too.
bool is_scan_bomb(std::span<const uint8_t> bytes) {
  int scans = 0;
  for (size_t i = 0; i + 1 < bytes.size(); ++i) scans += bytes[i] == 0xFF && bytes[i + 1] == 0xDA;
  return scans > kMaxJpegScans;
}

}  // namespace

bool left_to_fallback(const Error& refusal, std::span<const uint8_t> bytes) {
  const bool refused = refusal.kind() == ErrorKind::corrupt_data || refusal.kind() == ErrorKind::unavailable;
  return refused && !(sniff(bytes) == ImageFormat::jpeg && is_scan_bomb(bytes));
}

struct PictureDecoder::Impl {
  Impl(JpegRule jpegs, int64_t quiet, const PngTextLimits& limits)
      : rule(jpegs), most_quiet_pixels(quiet), texts(limits), jpeg(jpegs) {}

  const JpegRule rule;
  const int64_t most_quiet_pixels;
  const PngTextLimits texts;
  std::span<const uint8_t> bytes;
  std::variant<std::monostate, JpegHeader, PngFile, WebPFile> file;
  JpegDecoder jpeg;
  PngDecoder png;
  WebPDecoder webp;

  template <typename File>
  PictureHeader keep(ImageFormat format, const File& found) {
    const PictureHeader header{format, found.width, found.height, found.orientation, mode_of(found)};
    if (format != ImageFormat::jpeg) refuse_large(header, most_quiet_pixels);
    file = found;
    return header;
  }
};

PictureDecoder::PictureDecoder(JpegRule rule, int64_t most_quiet_pixels, const PngTextLimits& texts)
    : impl_(std::make_unique<Impl>(rule, most_quiet_pixels, texts)) {}
PictureDecoder::~PictureDecoder() = default;

PictureHeader PictureDecoder::probe(std::span<const uint8_t> bytes) {
  impl_->bytes = bytes;
  impl_->file = std::monostate();
  const ImageFormat format = sniff(bytes);
  switch (format) {
    case ImageFormat::jpeg: {
      const JpegHeader found = probe_jpeg(bytes);
      if (impl_->rule == JpegRule::strict) refuse_odd(found);  // another decoder may find another size
      return impl_->keep(format, found);
    }
    case ImageFormat::png: return impl_->keep(format, probe_png(bytes, impl_->texts));
    case ImageFormat::webp: return impl_->keep(format, probe_webp(bytes));
    case ImageFormat::gif:
    case ImageFormat::bmp:
    case ImageFormat::tiff:
    case ImageFormat::unknown: break;
  }
  throw Error(
      ErrorKind::unavailable,
      std::string("the file is ") + format_name(format) +
          ", not JPEG, PNG or WebP; convert it to one of these (in Python a fallback decoder reads it)");
}

void PictureDecoder::decode(base::Rect region, base::ImageView out) {
  struct Decode {
    Impl& impl;
    base::Rect region;
    base::ImageView out;
    void operator()(std::monostate) const {
      throw Error(ErrorKind::invalid_argument, "decode() needs a probe() that succeeded");
    }
    void operator()(const JpegHeader& header) const { impl.jpeg.decode(impl.bytes, header, region, out); }
    void operator()(const PngFile& file) const { impl.png.decode(impl.bytes, file, region, out); }
    void operator()(const WebPFile& file) const { impl.webp.decode(file, region, out); }
  };
  std::visit(Decode{*impl_, region, out}, impl_->file);
}

bool PictureDecoder::decodes_in_parts() {
  const JpegHeader* const found = jpeg();
  return found && impl_->jpeg.decodes_in_parts(impl_->bytes, *found);
}

const JpegHeader* PictureDecoder::jpeg() const { return std::get_if<JpegHeader>(&impl_->file); }

}  // namespace millrace::codecs
