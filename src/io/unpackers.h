// Unpacker: gzip and zstd content as a sequence of pieces. Several members or frames in a row are one
// content. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/byte_source.h"

namespace millrace::io {

class Unpacker {
 public:
  virtual ~Unpacker() = default;
  // At least one byte, or 0 at the end. Throws Error(corrupt_data) for damage and for an end in the middle.
  virtual size_t unpack(std::span<uint8_t> into) = 0;
};

std::unique_ptr<Unpacker> make_gzip_unpacker(std::shared_ptr<const ByteSource> source);
std::unique_ptr<Unpacker> make_zstd_unpacker(std::shared_ptr<const ByteSource> source);

// The packed bytes, piece by piece, for unpackers.
class PackedInput {
 public:
  explicit PackedInput(std::shared_ptr<const ByteSource> source);
  std::span<const uint8_t> next();                // empty at the end
  int64_t position() const { return position_; }  // past the bytes that next() gave
  const std::string& name() const { return source_->name(); }

 private:
  const std::shared_ptr<const ByteSource> source_;
  std::unique_ptr<uint8_t[]> buffer_;
  int64_t position_ = 0;
};

[[noreturn]] void fail_unpacking(const PackedInput& input, const std::string& reason);

}  // namespace millrace::io
