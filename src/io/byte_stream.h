// ByteStream: bytes from first to last, once: a source's own, or what its gzip or zstd content unpacks to.
//
// Reads small things from a buffer and large ones straight into the caller's memory, so that a file is copied
// once. Buffer: 4 to 256 KiB, as large as the last reads were small. Positions count unpacked bytes. One
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "io/byte_source.h"

namespace millrace::io {

class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Fills `into`; returns less than its size only at the end. Throws what the source throws, and
  // Error(corrupt_data) for packed content that is damaged or ends too early.
  virtual size_t read(std::span<uint8_t> into) = 0;
  // Goes on `bytes` further; returns how far it got, less only at the end. Costs nothing when nothing is
  // packed.
  virtual int64_t skip(int64_t bytes) = 0;

  virtual int64_t position() const = 0;
  virtual size_t buffered() const = 0;    // bytes that read() gives without looking at the source
  virtual int64_t most_left() const = 0;  // no more bytes than this are to come
  virtual bool packed() const = 0;        // positions are not the source's offsets
};

// By the content's first bytes, whatever its name says. Throws Error(unavailable) for bzip2 and xz.
std::unique_ptr<ByteStream> open_stream(std::shared_ptr<const ByteSource> source);

}  // namespace millrace::io
