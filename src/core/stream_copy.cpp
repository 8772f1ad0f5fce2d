#include "core/stream_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace millrace::core {

#if defined(__SSE2__)

void copy_to_memory(void* to, const void* from, size_t bytes) {
  constexpr size_t kLine = 64;
  auto* target = static_cast<uint8_t*>(to);
  const auto* source = static_cast<const uint8_t*>(from);
  const size_t head = std::min(bytes, (kLine - reinterpret_cast<uintptr_t>(target) % kLine) % kLine);
  std::memcpy(target, source, head);
  size_t done = head;
  for (; done + kLine <= bytes; done += kLine) {
    const auto* lines = reinterpret_cast<const __m128i*>(source + done);
    auto* stream = reinterpret_cast<__m128i*>(target + done);
    const __m128i a = _mm_loadu_si128(lines), b = _mm_loadu_si128(lines + 1), c = _mm_loadu_si128(lines + 2),
                  d = _mm_loadu_si128(lines + 3);
    _mm_stream_si128(stream, a);
    _mm_stream_si128(stream + 1, b);
    _mm_stream_si128(stream + 2, c);
    _mm_stream_si128(stream + 3, d);
  }
  _mm_sfence();  // streamed stores are ordered with nothing else
  std::memcpy(target + done, source + done, bytes - done);
}

#else

void copy_to_memory(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

#endif

}  // namespace millrace::core
