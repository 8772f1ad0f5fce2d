#include "codecs/webp_decoder.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include <webp/decode.h>
#include <webp/demux.h>

#include "codecs/image_header.h"
#include "codecs/orientation.h"
#include "millrace/error.h"

namespace millrace::codecs {
namespace {

using Bytes = std::span<const uint8_t>;
using Demuxer = std::unique_ptr<WebPDemuxer, decltype(&WebPDemuxDelete)>;

// Cropping makes libwebp take the crop's edge for the picture's, and fancy upsampling looks one chroma
// sample, two pixels, further.
constexpr int32_t kBorder = 2;

[[noreturn]] void fail_webp(const std::string& message, int64_t offset) {
  throw Error(ErrorKind::corrupt_data, message, {}, offset);
}

// The first chunk of that name; empty without one.
Bytes chunk(const Demuxer& demuxer, const char* name) {
  WebPChunkIterator found;
  if (!WebPDemuxGetChunk(demuxer.get(), name, 1, &found)) return {};
  const Bytes data(found.chunk.bytes, found.chunk.size);
  WebPDemuxReleaseChunkIterator(&found);
  return data;
}

// The piece of the frame's picture that has to be decoded for `part` of it to be right.
base::Rect with_margin(base::Rect part, const WebPFile& file) {
  if (file.lossless) return part;
  const int32_t left = std::max(0, part.left - kBorder) & ~1, top = std::max(0, part.top - kBorder) & ~1;
  return {left, top, std::min(file.frame.width, part.right() + kBorder) - left,
          std::min(file.frame.height, part.bottom() + kBorder) - top};
}

void decode_part(const WebPFile& file, base::Rect part, base::ImageView out) {
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config))
    throw Error(ErrorKind::unavailable,
                "the installed libwebp is not of the version that millrace was built with; build it again");
  config.output.colorspace = MODE_RGBA;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = out.data;
  config.output.u.RGBA.stride = static_cast<int>(out.stride_bytes);
  config.output.u.RGBA.size = static_cast<size_t>(out.stride_bytes) * static_cast<size_t>(out.height);
  if (part != base::Rect{0, 0, file.frame.width, file.frame.height}) {
    config.options.use_cropping = 1;
    config.options.crop_left = part.left;
    config.options.crop_top = part.top;
    config.options.crop_width = part.width;
    config.options.crop_height = part.height;
  }
  const VP8StatusCode status = WebPDecode(file.data.data(), file.data.size(), &config);
  if (status == VP8_STATUS_OUT_OF_MEMORY) throw std::bad_alloc();
  if (status != VP8_STATUS_OK)
    fail_webp("WebP's pixels cannot be decoded (libwebp's status " + std::to_string(status) +
                  "): the file is damaged",
              -1);
}

void clear(base::ImageView view) {
  for (int32_t y = 0; y < view.height; ++y)
    std::memset(view.row(y), 0, static_cast<size_t>(view.width) * base::kPixelBytes);
}

}  // namespace

WebPFile probe_webp(Bytes bytes) {
  if (sniff(bytes) != ImageFormat::webp) fail_webp("not a WebP: the first bytes are not RIFF....WEBP", 0);
  const WebPData all{bytes.data(), bytes.size()};
  const Demuxer demuxer(WebPDemux(&all), &WebPDemuxDelete);
  WebPIterator first;
  if (!demuxer || !WebPDemuxGetFrame(demuxer.get(), 1, &first))
    fail_webp("WebP of " + std::to_string(bytes.size()) +
                  " bytes is not complete, or not put together as a WebP is: it is truncated or damaged",
              static_cast<int64_t>(bytes.size()));
  WebPFile file;
  file.frame = {first.x_offset, first.y_offset, first.width, first.height};
  file.data = {first.fragment.bytes, first.fragment.size};
  WebPDemuxReleaseIterator(&first);
  file.width = static_cast<int32_t>(WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH));
  file.height = static_cast<int32_t>(WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT));
  refuse_huge("WebP", file.width, file.height, 0);
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(file.data.data(), file.data.size(), &features) != VP8_STATUS_OK)
    fail_webp("WebP's first frame has no readable header: the file is damaged",
              file.data.data() - bytes.data());
  file.lossless = features.format == 2;
  const std::optional<int> orientation = picture_orientation(chunk(demuxer, "EXIF"), chunk(demuxer, "XMP "));
  if (!orientation)
    throw Error(ErrorKind::unavailable,
                "WebP has unusual EXIF data; take it out, as only Pillow knows what it means");
  file.orientation = *orientation;
  return file;
}

void WebPDecoder::decode(const WebPFile& file, base::Rect region, base::ImageView out) {
  const base::Rect frame = file.frame;
  const int32_t left = std::max(region.left, frame.left), top = std::max(region.top, frame.top);
  const int32_t width = std::min(region.right(), frame.right()) - left,
                height = std::min(region.bottom(), frame.bottom()) - top;
  const bool covered = width == region.width && height == region.height;
  if (!covered) clear(out);
  if (width <= 0 || height <= 0) return;

  const base::ImageView target = out.part({left - region.left, top - region.top, width, height});
  const base::Rect part{left - frame.left, top - frame.top, width, height};
  const base::Rect around = with_margin(part, file);
  if (around == part) {
    decode_part(file, part, target);
    return;
  }
  const ptrdiff_t stride = ptrdiff_t{around.width} * base::kPixelBytes;
  pixels_.resize(static_cast<size_t>(stride) * static_cast<size_t>(around.height));
  const base::ImageView decoded{pixels_.data(), around.width, around.height, stride};
  decode_part(file, around, decoded);
  base::copy_pixels(decoded.part({part.left - around.left, part.top - around.top, width, height}), target);
}

}  // namespace millrace::codecs
