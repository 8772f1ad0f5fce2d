// LibjpegSession: what every use of libjpeg-turbo here has in common: bytes in memory as its source, its
// errors as a longjmp with a message, its warnings counted and silent (or errors, too), and an end to files
// with endless scans.
//
// Between setjmp(session.escape) and a longjmp to it only sessions and C code may be alive, so that no
// destructor is skipped; the caller's setjmp must lie in a frame that outlives every call of libjpeg. One
// thread; borrows the bytes.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>

#include <jpeglib.h>

namespace millrace::codecs {

struct LibjpegSession {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  jmp_buf escape{};
  char message[JMSG_LENGTH_MAX] = "";
  bool strict = false;  // a warning is an error

  LibjpegSession();
  LibjpegSession(const LibjpegSession&) = delete;
  LibjpegSession& operator=(const LibjpegSession&) = delete;
  ~LibjpegSession() { jpeg_destroy_decompress(&info); }

  // Below setjmp only: creates `info` with `bytes` as its source.
  void create(std::span<const uint8_t> bytes);
  [[noreturn]] void leave(const char* reason);
  // Leaves when a progressive picture lacks scans: decoders smooth what those left open, each version of
  // libjpeg in its own way.
  void refuse_unfinished();
};

}  // namespace millrace::codecs
