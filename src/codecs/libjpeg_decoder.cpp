#include "codecs/libjpeg_decoder.h"

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

#include <jerror.h>
#include <jpeglib.h>

#include "millrace/error.h"

namespace millrace {
namespace {

// Cropping moves libjpeg's idea of the picture's edge, and fancy upsampling looks one chroma sample, at most two pixels, beyond
// a pixel: with that margin the pixels inside equal those of a full decode.
constexpr int32_t kMargin = 2;

// A progressive file may hold any number of tiny scans, each a pass over all coefficients: minutes of work from a few kilobytes.
constexpr int kMaxScans = 500;

// Everything that libjpeg touches. Between setjmp and longjmp only this struct and C code are alive, so no destructor is skipped.
struct Session {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  jmp_buf escape{};
  char message[JMSG_LENGTH_MAX] = "";
  size_t offset = 0;
};

[[noreturn]] void leave(Session& session, const char* message) {
  std::snprintf(session.message, sizeof session.message, "%s", message);
  longjmp(session.escape, 1);
}

Session& session_of(j_common_ptr info) { return *static_cast<Session*>(info->client_data); }

void on_error(j_common_ptr info) {
  char message[JMSG_LENGTH_MAX];
  info->err->format_message(info, message);
  leave(session_of(info), message);
}

void ignore_warning(j_common_ptr, int) {}
void stay_silent(j_common_ptr) {}

void refuse_scan_bombs(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans)
    leave(session_of(info), "more than 500 scans, which no encoder writes");
}

void do_nothing(j_decompress_ptr) {}

boolean on_end_of_bytes(j_decompress_ptr info) {
  leave(session_of(reinterpret_cast<j_common_ptr>(info)), "the file is truncated");
}

void skip_bytes(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  if (static_cast<size_t>(count) > info->src->bytes_in_buffer) on_end_of_bytes(info);
  info->src->next_input_byte += count;
  info->src->bytes_in_buffer -= static_cast<size_t>(count);
}

// Pillow's arithmetic for an inverted (Adobe) CMYK pixel, as bytes stand in the file.
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

void start(Session& session, std::span<const uint8_t> bytes) {
  jpeg_decompress_struct& info = session.info;
  info.src = &session.source;
  session.source.init_source = do_nothing;
  session.source.fill_input_buffer = on_end_of_bytes;
  session.source.skip_input_data = skip_bytes;
  session.source.resync_to_restart = jpeg_resync_to_restart;
  session.source.term_source = do_nothing;
  session.source.next_input_byte = bytes.data();
  session.source.bytes_in_buffer = bytes.size();
  session.progress.progress_monitor = refuse_scan_bombs;
  info.progress = &session.progress;
  jpeg_read_header(&info, TRUE);
}

void decode_region(Session& session, Rect region, ImageView out) {
  jpeg_decompress_struct& info = session.info;
  const bool cmyk = info.num_components == 4;
  info.out_color_space = cmyk ? JCS_CMYK : JCS_EXT_RGBX;
  info.dct_method = JDCT_ISLOW;
  info.do_fancy_upsampling = TRUE;
  jpeg_start_decompress(&info);

  const int32_t full_width = static_cast<int32_t>(info.output_width), full_height = static_cast<int32_t>(info.output_height);
  const int32_t left = std::max(0, region.left - kMargin), right = std::min(full_width, region.right() + kMargin);
  JDIMENSION crop_left = 0;
  if (left > 0 || right < full_width) {
    crop_left = static_cast<JDIMENSION>(left);
    JDIMENSION crop_width = static_cast<JDIMENSION>(right - left);
    jpeg_crop_scanline(&info, &crop_left, &crop_width);
  }
  const size_t row_bytes = size_t{info.output_width} * kPixelBytes;
  JSAMPROW row = static_cast<JSAMPROW>(info.mem->alloc_large(reinterpret_cast<j_common_ptr>(&info), JPOOL_IMAGE, row_bytes));
  const uint8_t* inside = row + (static_cast<size_t>(region.left) - crop_left) * kPixelBytes;

  const int32_t top = std::max(0, region.top - kMargin), bottom = std::min(full_height, region.bottom() + kMargin);
  if (top > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(top));
  for (int32_t y = top; y < bottom; ++y) {
    jpeg_read_scanlines(&info, &row, 1);
    if (y < region.top || y >= region.bottom()) continue;
    uint8_t* to = out.row(y - region.top);
    if (cmyk)
      cmyk_to_rgbx(inside, to, region.width);
    else
      std::memcpy(to, inside, static_cast<size_t>(region.width) * kPixelBytes);
  }
}

// The only frame that longjmp returns to. False: session.message says why.
bool run(Session& session, std::span<const uint8_t> bytes, const JpegHeader& header, Rect region, ImageView out) {
  if (setjmp(session.escape) != 0) return false;
  jpeg_create_decompress(&session.info);
  start(session, bytes);
  if (session.info.image_width != static_cast<JDIMENSION>(header.width) ||
      session.info.image_height != static_cast<JDIMENSION>(header.height))
    leave(session, "two frame headers disagree about the picture's size");
  decode_region(session, region, out);
  return true;
}

}  // namespace

void libjpeg_decode(std::span<const uint8_t> bytes, const JpegHeader& header, Rect region, ImageView out) {
  Session session;
  session.info.err = jpeg_std_error(&session.errors);
  session.info.client_data = &session;
  session.errors.error_exit = on_error;
  session.errors.emit_message = ignore_warning;
  session.errors.output_message = stay_silent;
  const bool done = run(session, bytes, header, region, out);
  session.offset = bytes.size() - session.source.bytes_in_buffer;
  jpeg_destroy_decompress(&session.info);
  if (!done)
    throw Error(ErrorKind::corrupt_data, std::string("JPEG cannot be decoded: ") + session.message, {},
                static_cast<int64_t>(session.offset));
}

}  // namespace millrace
