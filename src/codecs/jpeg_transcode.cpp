#include "codecs/jpeg_transcode.h"

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdlib>
#include <string>

#include "codecs/image_header.h"
#include "codecs/libjpeg_session.h"
#include "millrace/error.h"

namespace millrace::codecs {
namespace {

// The file that libjpeg writes, in memory from malloc: it grows inside libjpeg's calls, where no exception
// may pass.
struct Output {
  jpeg_compress_struct info{};
  jpeg_destination_mgr destination{};
  uint8_t* bytes = nullptr;
  size_t capacity = 0;

  Output() = default;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() {
    jpeg_destroy_compress(&info);
    std::free(bytes);
  }
};

// Room for `capacity` bytes, of which the first `used` are written.
void make_room(j_compress_ptr info, size_t used, size_t capacity) {
  Output& output = *reinterpret_cast<Output*>(info);
  auto* bytes = static_cast<uint8_t*>(std::realloc(output.bytes, capacity));
  if (bytes == nullptr) static_cast<LibjpegSession*>(info->client_data)->leave("out of memory");
  output.bytes = bytes;
  output.capacity = capacity;
  info->dest->next_output_byte = bytes + used;
  info->dest->free_in_buffer = capacity - used;
}

void begin_output(j_compress_ptr info) { make_room(info, 0, reinterpret_cast<Output*>(info)->capacity); }

boolean on_full_buffer(j_compress_ptr info) {
  const size_t used = reinterpret_cast<Output*>(info)->capacity;
  make_room(info, used, 2 * used);
  return TRUE;
}

void do_nothing(j_compress_ptr) {}

// The standard's Huffman tables have codes for what an encoder of 8-bit samples can make; libjpeg's own check
// is left out where it has a quick assembler routine. A damaged file may hold more.
void refuse_large_values(LibjpegSession& session, jvirt_barray_ptr* coefficients) {
  constexpr int kMostAc = 1023, kLeastDc = -1024;
  jpeg_decompress_struct& info = session.info;
  bool fits = true;
  for (int c = 0; c < info.num_components; ++c)
    for (JDIMENSION y = 0; y < info.comp_info[c].height_in_blocks; ++y) {
      const JBLOCKROW row = info.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&info),
                                                         coefficients[c], y, 1, FALSE)[0];
      for (JDIMENSION x = 0; x < info.comp_info[c].width_in_blocks; ++x) {
        fits &= row[x][0] >= kLeastDc && row[x][0] < -kLeastDc;
        for (int k = 1; k < DCTSIZE2; ++k) fits &= std::abs(row[x][k]) <= kMostAc;
      }
    }
  if (!fits) session.leave("a coefficient that 8-bit samples cannot have");
}

// The scan of a single component is not interleaved: its MCUs are blocks, whatever its sampling factors say.
unsigned segment_mcus(const jpeg_decompress_struct& info, int32_t pixels) {
  constexpr int32_t kMostMcus = 0xFFFF;
  const int32_t mcu_pixels = info.num_components == 1 ? DCTSIZE : DCTSIZE * info.max_h_samp_factor;
  return pixels <= 0 ? 0 : static_cast<unsigned>(std::clamp(pixels / mcu_pixels, 1, kMostMcus));
}

void transcode(LibjpegSession& session, Output& output, std::span<const uint8_t> bytes,
               const TranscodeOptions& options) {
  jpeg_decompress_struct& from = session.info;
  session.create(bytes);
  constexpr unsigned kWholeSegment = 0xFFFF;
  jpeg_save_markers(&from, JPEG_COM, kWholeSegment);
  for (int i = 0; i < 16; ++i) jpeg_save_markers(&from, JPEG_APP0 + i, kWholeSegment);
  jpeg_read_header(&from, TRUE);
  jvirt_barray_ptr* const coefficients = jpeg_read_coefficients(&from);
  if (session.errors.num_warnings > 0)
    session.leave("the entropy-coded data is damaged");  // writing sets the count to 0
  session.refuse_unfinished();                           // as a baseline file it would look different
  refuse_large_values(session, coefficients);

  jpeg_compress_struct& to = output.info;
  to.err = &session.errors;
  to.client_data = &session;
  jpeg_create_compress(&to);
  output.destination = {};
  output.destination.init_destination = begin_output;
  output.destination.empty_output_buffer = on_full_buffer;
  output.destination.term_destination = do_nothing;
  output.capacity = bytes.size() + bytes.size() / 8 + 4096;
  to.dest = &output.destination;
  jpeg_copy_critical_parameters(&from, &to);
  to.optimize_coding = options.own_tables ? TRUE : FALSE;
  to.write_JFIF_header = FALSE;  // they are among the segments that are kept
  to.write_Adobe_marker = FALSE;
  to.restart_interval = segment_mcus(from, options.segment_pixels);
  jpeg_write_coefficients(&to, coefficients);
  for (jpeg_saved_marker_ptr marker = from.marker_list; marker != nullptr; marker = marker->next)
    jpeg_write_marker(&to, marker->marker, marker->data, marker->data_length);
  jpeg_finish_compress(&to);
  jpeg_finish_decompress(&from);
}

// The only frame that longjmp returns to. False: session.message says why.
bool run(LibjpegSession& session, Output& output, std::span<const uint8_t> bytes,
         const TranscodeOptions& options) {
  if (setjmp(session.escape) != 0) return false;
  transcode(session, output, bytes, options);
  return true;
}

}  // namespace

std::vector<uint8_t> transcode_jpeg(std::span<const uint8_t> bytes, const TranscodeOptions& options) {
  probe_jpeg(bytes);  // refuses bombs before memory is taken for them
  LibjpegSession session;
  Output output;
  if (!run(session, output, bytes, options))
    throw Error(ErrorKind::corrupt_data,
                std::string("JPEG cannot be transcoded without loss: ") + session.message, {},
                static_cast<int64_t>(bytes.size() - session.source.bytes_in_buffer));
  return {output.bytes, output.bytes + (output.capacity - output.destination.free_in_buffer)};
}

}  // namespace millrace::codecs
