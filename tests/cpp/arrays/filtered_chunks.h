// Chunks as HDF5 writes them, made by the plainest code: shuffle, deflate and checksum.
#pragma once

#include <libdeflate.h>

#include <cstdint>
#include <span>
#include <vector>

#include "codecs/chunk_filters.h"

namespace millrace::arrays {

using Bytes = std::vector<uint8_t>;

inline Bytes shuffled(const Bytes& plain, size_t element_bytes) {
  Bytes out = plain;
  const size_t elements = plain.size() / element_bytes;
  for (size_t i = 0; i < elements; ++i)
    for (size_t j = 0; j < element_bytes; ++j) out[j * elements + i] = plain[i * element_bytes + j];
  return out;
}

inline Bytes deflated(const Bytes& plain, int level = 6) {
  libdeflate_compressor* compressor = libdeflate_alloc_compressor(level);
  Bytes out(libdeflate_zlib_compress_bound(compressor, plain.size()));
  out.resize(libdeflate_zlib_compress(compressor, plain.data(), plain.size(), out.data(), out.size()));
  libdeflate_free_compressor(compressor);
  return out;
}

inline Bytes checked(Bytes bytes) {
  uint32_t low = 0, high = 0;  // word by word, folded as the definition has it
  for (size_t i = 0; i < bytes.size(); i += 2) {
    low += static_cast<uint32_t>(bytes[i] << 8) | (i + 1 < bytes.size() ? bytes[i + 1] : 0u);
    low = (low & 0xffff) + (low >> 16);
    high += low;
    high = (high & 0xffff) + (high >> 16);
  }
  const uint32_t sum = high << 16 | low;
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<uint8_t>(sum >> shift));
  return bytes;
}

inline Bytes filtered(Bytes bytes, std::span<const codecs::ChunkFilter> filters, uint32_t left_out = 0) {
  for (size_t i = 0; i < filters.size(); ++i) {
    if (left_out >> i & 1) continue;
    if (filters[i].kind == codecs::ChunkFilter::Kind::shuffle)
      bytes = shuffled(bytes, filters[i].element_bytes);
    if (filters[i].kind == codecs::ChunkFilter::Kind::deflate) bytes = deflated(bytes);
    if (filters[i].kind == codecs::ChunkFilter::Kind::fletcher32) bytes = checked(bytes);
  }
  return bytes;
}

}  // namespace millrace::arrays
