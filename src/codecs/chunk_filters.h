// ChunkDecoder: what HDF5's filters made of a chunk of an array, undone: deflate, shuffle, and Fletcher's
// checksum, which is verified.
//
// As HDF5's file format specification has them (III.A, "Filter Pipeline Message"): filters are undone last
// first, and filters with their bit set in a chunk's mask were left out when it was written. Memory is
// bounded by what the chunk has to be, so that damaged sizes cost nothing. One per thread; keeps its two
// buffers. Throws nothing but std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

struct libdeflate_decompressor;

namespace millrace::codecs {

struct ChunkFilter {
  enum class Kind : uint8_t { deflate, shuffle, fletcher32 };
  Kind kind = Kind::deflate;
  uint32_t element_bytes = 1;  // of shuffle
};

class ChunkDecoder {
 public:
  ChunkDecoder();
  ~ChunkDecoder();
  ChunkDecoder(const ChunkDecoder&) = delete;
  ChunkDecoder& operator=(const ChunkDecoder&) = delete;

  // Fills `plain`, of exactly the size that the chunk has to have. Returns null, or the fault of the stored
  // bytes: then the content of `plain` means nothing. At most one of `filters` deflates.
  const char* decode(std::span<const uint8_t> stored, std::span<const ChunkFilter> filters, uint32_t left_out,
                     std::span<uint8_t> plain);

 private:
  libdeflate_decompressor* const decompressor_;
  std::vector<uint8_t> buffers_[2];
};

// The checksum that HDF5 appends, of the bytes as big-endian words of 16 bits, an odd last byte as the upper
// half of one.
uint32_t fletcher32(std::span<const uint8_t> bytes);

// Byte j of element i, which lies at j * elements + i, goes to i * element_bytes + j; bytes left over at the
// end stay.
void unshuffle(std::span<const uint8_t> shuffled, size_t element_bytes, uint8_t* plain);

}  // namespace millrace::codecs
