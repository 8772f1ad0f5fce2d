// DcTable, AcTable: Huffman tables in the shapes that the entropy decoder reads.
//
// A step of the decoder is a chain: look up, shift, look up again; its latency, about seven cycles, is the
// cost of decoding. So each look-up does as much as fits into kLookupBits: code, extra bits and sign of up to
// two coefficients when they are wanted, as many symbols as fit when they are only skipped. Building takes 10
// to 30 us; BaselineDecoder keeps tables between images, since most files use the standard ones. Immutable
// once built.
#pragma once

#include <array>
#include <cstdint>

#include "codecs/baseline_stream.h"

namespace millrace::codecs {

// A look-up sees this many bits; it may take more: the last symbol's extra bits need not all be seen, only
// its sign.
inline constexpr int kLookupBits = 11, kMostTaken = 18;

// Canonical code by code length: the slow path for codes longer than a look-up, and the ground truth for
// building them.
struct CanonicalCode {
  std::array<uint32_t, 17> limit{};  // first 16-bit prefix past the codes of this length
  std::array<int32_t, 17> offset{};  // symbol index = offset[length] + code
  std::array<uint8_t, 256> symbols{};

  bool build(const HuffmanSpec& spec);  // false: more codes than a length has

  // Symbol of the code at the top of `bits`, its length in `length`; -1 when there is no such code.
  int decode(uint64_t bits, int& length) const {
    const uint32_t prefix = static_cast<uint32_t>(bits >> 48);
    for (length = 1; length <= 16; ++length)
      if (prefix < limit[length])
        return symbols[static_cast<size_t>(offset[length] + static_cast<int32_t>(prefix >> (16 - length))) &
                       255];
    return -1;
  }
};

struct DcTable {
  static constexpr int kBits = 9;
  struct Entry {
    uint8_t total = 0;  // code and extra bits together; 0: the code is longer than kBits
    uint8_t code = 0;   // bits of the code
    uint8_t extra = 0;  // bits of the difference
    uint8_t unused = 0;
  };
  std::array<Entry, 1 << kBits> lookup;
  CanonicalCode canonical;

  bool build(const HuffmanSpec& spec);  // false: not a table that libjpeg would take
};

struct AcTable {
  // What `step` adds to the index of the last coefficient. Values of 64 and more end the decoder's inner
  // loop.
  static constexpr uint32_t kEndOfBlock = 128, kSlow = 192;

  // One look-up of wanted coefficients, low bits first: 8 length of all symbols; 8 step to the first
  // coefficient; 8 step on to the second (0: there is none); 8 shift count, 63 less the extra bits of the
  // last value that were not seen; 16 first value; 16 second value, or again the first. The bits not seen are
  // added to the last value.
  using Pair = uint64_t;

  // One look-up of symbols that are only skipped, low bits first: 8 length of all symbols; 8 step (0..63,
  // kSkipEnd added when the last symbol ends the block, kSkipSlow alone when the first code is too long).
  using Skip = uint16_t;
  static constexpr uint32_t kSkipEnd = 64, kSkipSlow = 128;

  std::array<Pair, 1 << kLookupBits> pairs;
  std::array<Skip, 1 << kLookupBits> skips;
  CanonicalCode canonical;

  bool build(const HuffmanSpec& spec);
};

}  // namespace millrace::codecs
