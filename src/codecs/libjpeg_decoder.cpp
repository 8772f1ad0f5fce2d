#include "codecs/libjpeg_decoder.h"

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstring>
#include <string>

#include <jpeglib.h>

#include "codecs/entropy_data.h"
#include "codecs/libjpeg_session.h"
#include "millrace/error.h"

namespace millrace::codecs {
namespace {

// Cropping moves libjpeg's idea of the picture's edge, and fancy upsampling looks one chroma sample, at most
// two pixels, beyond a pixel: with that margin the pixels inside equal those of a full decode.
constexpr int32_t kMargin = 2;

// Pillow's arithmetic for an inverted (Adobe) CMYK pixel, as bytes are in the file.
uint8_t mul_div_255(uint32_t a, uint32_t b) {
  const uint32_t t = a * b + 128;
  return static_cast<uint8_t>(((t >> 8) + t) >> 8);
}

void cmyk_to_rgbx(const uint8_t* from, uint8_t* to, int32_t width) {
  for (int32_t x = 0; x < width; ++x, from += 4, to += 4) {
    const uint32_t white = from[3];
    for (int c = 0; c < 3; ++c) to[c] = static_cast<uint8_t>(white - mul_div_255(255u - from[c], white));
    to[3] = 255;
  }
}

// The picture past the region is not decoded. Markers are all that a strict reader has to see there: libjpeg
// only warns of damage between them. Where there are several scans it has read them all by now, and has
// warned of everything.
void refuse_odd_rest(LibjpegSession& session, std::span<const uint8_t> scan) {
  if (jpeg_has_multiple_scans(&session.info))
    session.refuse_unfinished();
  else if (!scan_is_regular(scan, session.info.restart_interval != 0))
    session.leave("there is a marker that does not belong into its scan, or none at its end");
}

// Reads on to the end marker, where libjpeg may still find errors; that the data ends before it is none.
void read_to_the_end(LibjpegSession& session) {
  session.source.fill_input_buffer = [](j_decompress_ptr) -> boolean { return FALSE; };
  session.source.skip_input_data = [](j_decompress_ptr info, long count) {
    const size_t step = std::min(info->src->bytes_in_buffer, static_cast<size_t>(std::max(count, 0L)));
    info->src->next_input_byte += step;
    info->src->bytes_in_buffer -= step;
  };
  jpeg_finish_decompress(&session.info);
}

void decode_region(LibjpegSession& session, std::span<const uint8_t> scan, base::Rect region,
                   base::ImageView out) {
  jpeg_decompress_struct& info = session.info;
  const bool cmyk = info.num_components == 4;
  info.out_color_space = cmyk ? JCS_CMYK : JCS_EXT_RGBX;
  info.dct_method = JDCT_ISLOW;
  info.do_fancy_upsampling = TRUE;
  jpeg_start_decompress(&info);
  if (session.strict) refuse_odd_rest(session, scan);

  const int32_t full_width = static_cast<int32_t>(info.output_width),
                full_height = static_cast<int32_t>(info.output_height);
  const int32_t left = std::max(0, region.left - kMargin),
                right = std::min(full_width, region.right() + kMargin);
  JDIMENSION crop_left = 0;
  if (left > 0 || right < full_width) {
    crop_left = static_cast<JDIMENSION>(left);
    JDIMENSION crop_width = static_cast<JDIMENSION>(right - left);
    jpeg_crop_scanline(&info, &crop_left, &crop_width);
  }
  const size_t row_bytes = size_t{info.output_width} * base::kPixelBytes;
  JSAMPROW row = static_cast<JSAMPROW>(
      info.mem->alloc_large(reinterpret_cast<j_common_ptr>(&info), JPOOL_IMAGE, row_bytes));
  const uint8_t* inside = row + (static_cast<size_t>(region.left) - crop_left) * base::kPixelBytes;

  const int32_t top = std::max(0, region.top - kMargin),
                bottom = std::min(full_height, region.bottom() + kMargin);
  if (top > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(top));
  for (int32_t y = top; y < bottom; ++y) {
    jpeg_read_scanlines(&info, &row, 1);
    if (y < region.top || y >= region.bottom()) continue;
    uint8_t* to = out.row(y - region.top);
    if (cmyk)
      cmyk_to_rgbx(inside, to, region.width);
    else
      std::memcpy(to, inside, static_cast<size_t>(region.width) * base::kPixelBytes);
  }
  if (!session.strict && bottom == full_height) read_to_the_end(session);
}

// The only frame that longjmp returns to. False: session.message says why.
bool run(LibjpegSession& session, std::span<const uint8_t> bytes, const JpegHeader& header, base::Rect region,
         base::ImageView out) {
  if (setjmp(session.escape) != 0) return false;
  session.create(bytes);
  jpeg_read_header(&session.info, TRUE);
  if (session.info.image_width != static_cast<JDIMENSION>(header.width) ||
      session.info.image_height != static_cast<JDIMENSION>(header.height))
    session.leave("two frame headers disagree about the picture's size");
  decode_region(session, bytes.subspan(header.scan_begin), region, out);
  return true;
}

}  // namespace

void libjpeg_decode(std::span<const uint8_t> bytes, const JpegHeader& header, base::Rect region,
                    base::ImageView out, JpegRule rule) {
  LibjpegSession session;
  session.strict = rule == JpegRule::strict;
  if (!run(session, bytes, header, region, out))
    throw Error(ErrorKind::corrupt_data, std::string("JPEG cannot be decoded: ") + session.message, {},
                static_cast<int64_t>(bytes.size() - session.source.bytes_in_buffer));
}

}  // namespace millrace::codecs
