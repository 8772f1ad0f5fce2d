#include "codecs/libjpeg_session.h"

#include "codecs/image_header.h"

namespace millrace::codecs {
namespace {

LibjpegSession& session_of(j_common_ptr info) { return *static_cast<LibjpegSession*>(info->client_data); }

void on_error(j_common_ptr info) {
  char message[JMSG_LENGTH_MAX];
  info->err->format_message(info, message);
  session_of(info).leave(message);
}

void on_warning(j_common_ptr info, int level) {
  if (level >= 0) return;  // a trace
  if (session_of(info).strict) on_error(info);
  ++info->err->num_warnings;
}

void stay_silent(j_common_ptr) {}

void refuse_scan_bombs(j_common_ptr info) {
  if (info->is_decompressor && reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxJpegScans)
    session_of(info).leave("more than 500 scans, which no encoder writes");
}

void do_nothing(j_decompress_ptr) {}

boolean on_end_of_bytes(j_decompress_ptr info) {
  session_of(reinterpret_cast<j_common_ptr>(info)).leave("the file is truncated");
}

void skip_bytes(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  if (static_cast<size_t>(count) > info->src->bytes_in_buffer) on_end_of_bytes(info);
  info->src->next_input_byte += count;
  info->src->bytes_in_buffer -= static_cast<size_t>(count);
}

}  // namespace

LibjpegSession::LibjpegSession() {
  info.err = jpeg_std_error(&errors);
  info.client_data = this;
  errors.error_exit = on_error;
  errors.emit_message = on_warning;
  errors.output_message = stay_silent;
  source.init_source = do_nothing;
  source.fill_input_buffer = on_end_of_bytes;
  source.skip_input_data = skip_bytes;
  source.resync_to_restart = jpeg_resync_to_restart;
  source.term_source = do_nothing;
  progress.progress_monitor = refuse_scan_bombs;
}

void LibjpegSession::leave(const char* reason) {
  std::snprintf(message, sizeof message, "%s", reason);
  longjmp(escape, 1);
}

void LibjpegSession::refuse_unfinished() {
  if (!info.progressive_mode || info.coef_bits == nullptr) return;
  for (int c = 0; c < info.num_components; ++c)
    for (int k = 0; k < DCTSIZE2; ++k)
      if (info.coef_bits[c][k] != 0) leave("a progressive picture whose last scans are missing");
}

void LibjpegSession::create(std::span<const uint8_t> bytes) {
  jpeg_create_decompress(&info);
  source.next_input_byte = bytes.data();
  source.bytes_in_buffer = bytes.size();
  info.src = &source;
  info.progress = &progress;
}

}  // namespace millrace::codecs
