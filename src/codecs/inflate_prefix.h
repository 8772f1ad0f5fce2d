// InflatePrefix: the first bytes of a zlib stream.
//
// libdeflate, some twice as fast as zlib, has no streaming: it fills a whole buffer. Given one that is too
// small it gives up when that is full, by when everything but the piece that did not fit is there. That is
// how all its versions work but none promises it, so the first use tries it on streams of each kind of block;
// where it does not hold, streams are inflated whole. One per thread; keeps its buffer, but not above 64 MiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

struct libdeflate_decompressor;

namespace millrace::codecs {

class InflatePrefix {
 public:
  static constexpr size_t kSlack = 16;         // readable bytes past the bytes asked for
  static constexpr size_t kMostGrowth = 1032;  // deflate makes no more than this of a byte

  InflatePrefix();
  ~InflatePrefix();

  // The first `needed` bytes of the `total` that the stream is said to have; overwritten by the next call,
  // the caller may change them. Null when the stream is damaged or shorter than `needed`. Data past `needed`
  // may stay unread.
  uint8_t* inflate(std::span<const uint8_t> stream, size_t needed, size_t total);

 private:
  uint8_t* memory(size_t bytes);

  libdeflate_decompressor* const decompressor_;
  std::unique_ptr<uint8_t[]> buffer_;
  size_t capacity_ = 0;
};

}  // namespace millrace::codecs
