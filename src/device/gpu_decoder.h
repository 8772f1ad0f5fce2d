// GpuDecoder: JPEG files in host memory to interleaved RGB in device memory, by nvJPEG, which is loaded when
// the first one is opened.
//
// A call has two steps, so that the caller owns the memory: plan() reads the headers and says where each
// picture will lie, decode() fills it on a stream. Pictures that nvJPEG cannot decode (CMYK, damaged,
// exotic) come back with a reason, for the CPU to decode. Pictures that the device's hardware engines take
// are decoded there as one batch, the others one after the other by kernels. One owner, one thread: a decoder
// per thread. The files' memory must stay until the stream has done the work; the device memory is filled
// only then. decode() may wait for pictures of earlier calls. The destructor waits for the decoder's enqueued
// work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/geometry.h"

namespace millrace::device {

struct JpegRequest {
  std::span<const uint8_t> bytes;
  base::Rect region{};  // of the picture as stored; empty: all of it
};

struct JpegResult {
  int32_t width = 0, height = 0, pitch_bytes = 0;  // of the region, three bytes a pixel
  size_t offset = 0;                               // of its first pixel in the memory
  std::string problem;                             // why it was not decoded; empty when it was
};

class GpuDecoder {
 public:
  struct Options {
    int device = 0;
    std::string library;  // path of libnvjpeg.so.*; empty: the loader's search path
    // Bytes of device memory for one call's results and nvJPEG's own buffers together; pictures beyond it
    // come back with that reason.
    size_t memory_ceiling_bytes = size_t{2} << 30;
  };
  // Throws Error(unavailable) with the remedy when there is no device, no driver or no nvJPEG.
  static std::unique_ptr<GpuDecoder> open(const Options& options);
  virtual ~GpuDecoder() = default;

  // Whether the device has hardware engines for JPEG.
  virtual bool has_hardware() const = 0;

  // Replaces `results` by one for each request; returns the bytes of device memory for those without a
  // problem. Throws Error(invalid_argument) when a region does not lie in its picture.
  virtual size_t plan(std::span<const JpegRequest> requests, std::vector<JpegResult>& results) = 0;

  // Takes the requests and results of the last plan(). `memory`: as many bytes as plan() returned, aligned to
  // 16. `stream`: a cudaStream_t.
  virtual void decode(std::span<const JpegRequest> requests, std::vector<JpegResult>& results, void* memory,
                      void* stream) = 0;

  // Waits until the device has done all enqueued work.
  virtual void wait() = 0;
};

}  // namespace millrace::device
