#include "codecs/inflate_prefix.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <vector>

#include <libdeflate.h>

namespace millrace::codecs {
namespace {

constexpr size_t kKeepBytes = size_t{64} << 20;

// What may be missing at the end of a buffer that was too small: a stored block, which is at most so long, or
// a match.
constexpr size_t kMostMissing = 65535 + 258;

bool prefix_is_right(libdeflate_decompressor* decompressor, int level) {
  constexpr size_t kBytes = size_t{5} << 16, kCut = kBytes / 2 + 12345;
  std::vector<uint8_t> plain(kBytes), out(kCut);
  uint32_t state = 1;
  for (size_t i = 0; i < kBytes; ++i) {  // noise, and repetitions of it
    state = state * 1664525 + 1013904223;
    plain[i] = i >= 300 && (i >> 7) % 3 != 0 ? plain[i - 300] : static_cast<uint8_t>(state >> 24);
  }
  libdeflate_compressor* compressor = libdeflate_alloc_compressor(level);
  if (!compressor) return false;
  std::vector<uint8_t> stream(libdeflate_zlib_compress_bound(compressor, kBytes));
  const size_t size =
      libdeflate_zlib_compress(compressor, plain.data(), kBytes, stream.data(), stream.size());
  libdeflate_free_compressor(compressor);
  const auto result =
      libdeflate_zlib_decompress(decompressor, stream.data(), size, out.data(), kCut, nullptr);
  return result == LIBDEFLATE_INSUFFICIENT_SPACE &&
         std::equal(plain.begin(), plain.begin() + kCut - kMostMissing, out.begin());
}

bool keeps_prefix(libdeflate_decompressor* decompressor) {
  // Not a static of its own: a child forked while a thread initialises it would wait for that thread for
  // ever.
  static std::atomic<int> known{-1};
  if (known < 0)
    known = prefix_is_right(decompressor, 0) && prefix_is_right(decompressor, 1) &&
            prefix_is_right(decompressor, 9);
  return known > 0;
}

}  // namespace

InflatePrefix::InflatePrefix() : decompressor_(libdeflate_alloc_decompressor()) {
  if (!decompressor_) throw std::bad_alloc();
}

InflatePrefix::~InflatePrefix() { libdeflate_free_decompressor(decompressor_); }

uint8_t* InflatePrefix::memory(size_t bytes) {
  if (bytes > capacity_ || (capacity_ > kKeepBytes && bytes < capacity_ / 4)) {
    buffer_.reset();
    capacity_ = 0;
    buffer_.reset(new uint8_t[bytes]);  // not make_unique, which would write zeros first
    capacity_ = bytes;
  }
  return buffer_.get();
}

uint8_t* InflatePrefix::inflate(std::span<const uint8_t> stream, size_t needed, size_t total) {
  // A header is no reason to take memory that so little data cannot fill.
  if (needed / kMostGrowth > stream.size()) return nullptr;
  const bool cut = total > kMostMissing && needed < total - kMostMissing && keeps_prefix(decompressor_);
  const size_t space = cut ? needed + kMostMissing : total;
  uint8_t* const out = memory(space + kSlack);
  size_t filled = 0;
  const auto result =
      libdeflate_zlib_decompress(decompressor_, stream.data(), stream.size(), out, space, &filled);
  if (result == LIBDEFLATE_INSUFFICIENT_SPACE) return cut ? out : nullptr;
  if (result != LIBDEFLATE_SUCCESS || filled < needed) return nullptr;
  return out;
}

}  // namespace millrace::codecs
