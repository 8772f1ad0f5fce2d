#include "codecs/chunk_filters.h"

#include <algorithm>
#include <cstring>
#include <new>

#include <libdeflate.h>

#include "codecs/inflate_prefix.h"

namespace millrace::codecs {
namespace {

constexpr size_t kChecksumBytes = 4;

// One loop over the elements that compilers turn into interleaving loads and stores; pointers of a fixed
// number stay in registers.
template <size_t kBytes>
void unshuffle_fixed(const uint8_t* in, size_t elements, uint8_t* out) {
  constexpr size_t kBlock = 256;  // elements with bytes that stay in the first cache
  for (size_t start = 0; start < elements; start += kBlock) {
    const size_t end = std::min(elements, start + kBlock);
    for (size_t i = start; i < end; ++i)
      for (size_t j = 0; j < kBytes; ++j) out[i * kBytes + j] = in[j * elements + i];
  }
}

void unshuffle_any(const uint8_t* in, size_t elements, size_t element_bytes, uint8_t* out) {
  for (size_t j = 0; j < element_bytes; ++j)
    for (size_t i = 0; i < elements; ++i) out[i * element_bytes + j] = in[j * elements + i];
}

bool moves_bytes(const ChunkFilter& filter) { return filter.kind != ChunkFilter::Kind::fletcher32; }

uint32_t swapped_halves(uint32_t sum) { return ((sum & 0x00ff00ffu) << 8) | ((sum >> 8) & 0x00ff00ffu); }

}  // namespace

uint32_t fletcher32(std::span<const uint8_t> bytes) {
  // 64 bits hold the sums of so many words that taking them modulo 65535 now and then costs nothing.
  constexpr size_t kWordsBetween = size_t{1} << 20;
  uint64_t low = 0, high = 0;
  const size_t words = bytes.size() / 2;
  for (size_t start = 0; start < words; start += kWordsBetween) {
    const size_t end = std::min(words, start + kWordsBetween);
    for (size_t i = start; i < end; ++i) {
      low += static_cast<uint64_t>(bytes[2 * i]) << 8 | bytes[2 * i + 1];
      high += low;
    }
    low %= 65535;
    high %= 65535;
  }
  if (bytes.size() % 2 != 0) {
    low = (low + (static_cast<uint64_t>(bytes.back()) << 8)) % 65535;
    high = (high + low) % 65535;
  }
  // HDF5 folds its sums instead of dividing: a sum that is not zero, but divides evenly, stays 65535 there.
  const bool any = std::any_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte != 0; });
  if (any && low == 0) low = 65535;
  if (any && high == 0) high = 65535;
  return static_cast<uint32_t>(high << 16 | low);
}

void unshuffle(std::span<const uint8_t> shuffled, size_t element_bytes, uint8_t* plain) {
  const size_t elements = shuffled.size() / element_bytes;
  switch (element_bytes) {
    case 2: unshuffle_fixed<2>(shuffled.data(), elements, plain); break;
    case 4: unshuffle_fixed<4>(shuffled.data(), elements, plain); break;
    case 8: unshuffle_fixed<8>(shuffled.data(), elements, plain); break;
    case 16: unshuffle_fixed<16>(shuffled.data(), elements, plain); break;
    default: unshuffle_any(shuffled.data(), elements, element_bytes, plain);
  }
  const size_t done = elements * element_bytes;
  std::copy(shuffled.begin() + static_cast<ptrdiff_t>(done), shuffled.end(), plain + done);
}

ChunkDecoder::ChunkDecoder() : decompressor_(libdeflate_alloc_decompressor()) {
  if (!decompressor_) throw std::bad_alloc();
}

ChunkDecoder::~ChunkDecoder() { libdeflate_free_decompressor(decompressor_); }

const char* ChunkDecoder::decode(std::span<const uint8_t> stored, std::span<const ChunkFilter> filters,
                                 uint32_t left_out, std::span<uint8_t> plain) {
  const auto runs = [&](size_t i) { return i >= 32 || (left_out >> i & 1) == 0; };
  std::span<const uint8_t> now = stored;
  size_t turn = 0;
  for (size_t i = filters.size(); i-- > 0;) {
    if (!runs(i)) continue;
    const ChunkFilter& filter = filters[i];
    if (filter.kind == ChunkFilter::Kind::fletcher32) {
      if (now.size() < kChecksumBytes) return "it is too short for its checksum";
      const auto ends = now.last(kChecksumBytes);
      now = now.first(now.size() - kChecksumBytes);
      const uint32_t noted = static_cast<uint32_t>(ends[0]) | static_cast<uint32_t>(ends[1]) << 8 |
                             static_cast<uint32_t>(ends[2]) << 16 | static_cast<uint32_t>(ends[3]) << 24;
      const uint32_t sum = fletcher32(now);
      // HDF5 before 1.6.3 wrote the bytes of each half the other way round on little-endian machines.
      if (noted != sum && noted != swapped_halves(sum)) return "its checksum (fletcher32) is another";
      continue;
    }
    // What this filter was given when the chunk was written, and whether that is the chunk itself.
    size_t size = plain.size();
    bool last = true, deflated = false;
    for (size_t before = 0; before < i; ++before) {
      if (!runs(before)) continue;
      if (filters[before].kind == ChunkFilter::Kind::fletcher32) size += kChecksumBytes;
      last = last && !moves_bytes(filters[before]);
      deflated = deflated || filters[before].kind == ChunkFilter::Kind::deflate;
    }
    if (deflated) size = now.size();  // of a shuffle after it, which changes no size
    last = last && size == plain.size();
    uint8_t* into = plain.data();
    if (filter.kind == ChunkFilter::Kind::deflate && size / InflatePrefix::kMostGrowth > now.size())
      return "it is too short for what it should hold";
    if (filter.kind == ChunkFilter::Kind::shuffle && now.size() != size)
      return "it has another size than its chunk";
    if (!last) {
      std::vector<uint8_t>& buffer = buffers_[turn++ % 2];
      if (buffer.size() < size) buffer.resize(size);
      into = buffer.data();
    }
    if (filter.kind == ChunkFilter::Kind::deflate) {
      size_t filled = 0;
      const auto result =
          libdeflate_zlib_decompress(decompressor_, now.data(), now.size(), into, size, &filled);
      if (result == LIBDEFLATE_INSUFFICIENT_SPACE) return "it inflates to more than its chunk";
      if (result != LIBDEFLATE_SUCCESS) return "it cannot be inflated";
      if (filled != size) return "it inflates to less than its chunk";
    } else {
      unshuffle(now, filter.element_bytes, into);
    }
    now = {into, size};
  }
  if (now.data() == plain.data()) return nullptr;
  if (now.size() != plain.size()) return "it has another size than its chunk";
  std::copy(now.begin(), now.end(), plain.begin());
  return nullptr;
}

}  // namespace millrace::codecs
