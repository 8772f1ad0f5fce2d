// BlockReader: reads or skips the 8x8 blocks of one entropy-coded segment.
//
// Everything here is inlined into the scan loop (baseline_scan.cpp), which is compiled once per instruction
// set: the shifts by variable counts are one instruction where BMI2 is. The reader never tests for the end
// inside a block; see EntropyData. Bits are kept left-aligned in one 64-bit word; refilling without branches
// is variant 4 of Fabian Giesen's "Reading bits in far too many ways" (2018).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codecs/huffman_tables.h"

namespace millrace::codecs {

// Coefficients of four neighbouring blocks lie row by row, 4 x 8 values, so that one 512-bit vector (or two,
// or four smaller ones) holds one row of all four. After them is room for the writes of a decoder that ran
// over the end of its block.
inline constexpr size_t kGroupBlocks = 4, kGroupRow = 8 * kGroupBlocks, kGroupValues = 8 * kGroupRow,
                        kGroupStride = kGroupValues + kGroupRow;

// Where coefficient k goes, relative to its block's first value; k from 64 on goes past the group.
struct GroupZigzag {
  uint16_t at[256];
  GroupZigzag() {
    for (size_t k = 0; k < 256; ++k)
      at[k] = static_cast<uint16_t>(k < 64 ? kZigzag[k] / 8 * kGroupRow + kZigzag[k] % 8 : kGroupValues);
  }
};
extern const GroupZigzag kGroupZigzag;

#define MILLRACE_INLINE inline __attribute__((always_inline))

class BlockReader {
 public:
  void start(const uint8_t* begin, const uint8_t* end) {
    next_ = begin;
    end_ = end;
    bits_ = 0;
    count_ = 0;
  }

  // True when more bits were taken than the segment has.
  MILLRACE_INLINE bool overrun() const { return next_ - ((count_ & 63) >> 3) > end_; }

  // The difference of a block's DC coefficient to its predecessor's.
  MILLRACE_INLINE int32_t read_dc(const DcTable& table) {
    refill();
    const DcTable::Entry entry = table.lookup[bits_ >> (64 - DcTable::kBits)];
    if (__builtin_expect(entry.total == 0, 0)) {
      const Symbol symbol = any_symbol(table.canonical, bits_);
      take(symbol.length);
      return symbol.length == 0 ? kBadDifference : symbol.value;
    }
    const int32_t value = signed_value(bits_ << entry.code, entry.extra);
    take(entry.total);
    return value;
  }

  // The AC coefficients of a block, which is zero before. False: not a stream for us.
  MILLRACE_INLINE bool read_ac(const AcTable& table, int16_t* block) {
    uint64_t k = 0;
    while (true) {
      refill();
      uint64_t before = 0;
      AcTable::Pair entry = 0;
#pragma GCC unroll 3
      for (int i = 0; i < 56 / kMostTaken; ++i) {
        before = bits_;
        entry = table.pairs[bits_ >> (64 - kLookupBits)];
        take(entry);
        k += entry >> 8 & 255;
        block[kGroupZigzag.at[k]] = static_cast<int16_t>(entry >> 32);
        k += entry >> 16 & 255;
        const uint64_t unseen = before << kLookupBits >> 1 >> (entry >> 24 & 63);
        block[kGroupZigzag.at[k]] = static_cast<int16_t>((entry >> 48) + unseen);
        if (k >= 63) break;
      }
      if (k < 63) continue;
      if (k - AcTable::kEndOfBlock <= 62) return true;
      if (k == 63) return true;
      // A long code, or a look-up that went beyond the block's end: take back the look-up and read one
      // symbol.
      k -= (entry >> 8 & 255) + (entry >> 16 & 255);
      bits_ = before;
      count_ += entry & 255;
      int16_t value;
      if (!read_symbol(table, k, value)) return false;
      block[kGroupZigzag.at[k]] = value;
      if (k >= 63) return true;
    }
  }

  // Steps over the AC coefficients of a block.
  MILLRACE_INLINE bool skip_ac(const AcTable& table) {
    uint64_t k = 0;
    while (true) {
      refill();
      uint64_t before = 0;
      uint32_t entry = 0;
#pragma GCC unroll 3
      for (int i = 0; i < 56 / kMostTaken; ++i) {
        before = bits_;
        entry = table.skips[bits_ >> (64 - kLookupBits)];
        take(entry);
        k += entry >> 8;
        if (k >= 63) break;
      }
      if (k < 63) continue;
      const uint32_t step = entry >> 8;
      if (k - AcTable::kSkipEnd <= 62 && (step & AcTable::kSkipEnd)) return true;
      if (k == 63) return true;
      // A long code, or a look-up that went beyond the block's end: take it back, and go on symbol by symbol.
      k -= step;
      bits_ = before;
      count_ += entry & 255;
      do {
        int16_t value;
        if (!read_symbol(table, k, value)) return false;
      } while (k < 63 && step != AcTable::kSkipSlow);
      if (k >= 63) return true;
    }
  }

 private:
  MILLRACE_INLINE void refill() {
    uint64_t word;
    std::memcpy(&word, next_, 8);
    if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap64(word);
    bits_ |= word >> (count_ & 63);
    next_ += ~count_ >> 3 & 7;
    count_ |= 56;
  }

  // Only the low six bits count: callers may pass a whole table entry, and what its upper bits leave in
  // count_ is never read.
  MILLRACE_INLINE void take(uint64_t length) {
    bits_ <<= length & 63;
    count_ -= length;
  }

  static MILLRACE_INLINE int32_t signed_value(uint64_t bits, unsigned size) {
    const int32_t raw = static_cast<int32_t>(bits >> 1 >> (63 - size));
    const int32_t negative = static_cast<int32_t>(~bits >> 63);
    return raw + (-negative & (1 - (1 << size)));
  }

  struct Symbol {
    uint32_t length = 0;  // of code and extra bits; 0: there is no such code
    uint32_t step = 0;    // as in AcTable
    int16_t value = 0;
  };

  // The symbol at the top of `bits`, bit by bit. Takes no `this`, so that a reader in the inner loops can
  // stay in registers.
  static __attribute__((noinline)) Symbol any_symbol(const CanonicalCode& code, uint64_t bits) {
    int length;
    const int symbol = code.decode(bits, length);
    const int size = symbol & 15, run = symbol >> 4;
    // Runs of 1 to 14 without a value belong to progressive files.
    if (symbol < 0 || (size == 0 && run != 0 && run != 15)) return {};
    return {static_cast<uint32_t>(length + size),
            symbol == 0 ? AcTable::kEndOfBlock : static_cast<uint32_t>(run + 1),
            static_cast<int16_t>(signed_value(bits << length, static_cast<unsigned>(size)))};
  }

  // Moves k on to the next coefficient, or to 64 at an end of block.
  MILLRACE_INLINE bool read_symbol(const AcTable& table, uint64_t& k, int16_t& value) {
    refill();
    const Symbol symbol = any_symbol(table.canonical, bits_);
    take(symbol.length);
    value = symbol.value;
    if (symbol.step == AcTable::kEndOfBlock) {
      k = 64;
      return true;
    }
    k += symbol.step;
    return symbol.length != 0 && k <= 63;
  }

  static constexpr int32_t kBadDifference =
      1 << 20;  // out of the range of any coefficient: the caller's range test sees it

  const uint8_t* next_ = nullptr;
  const uint8_t* end_ = nullptr;
  uint64_t bits_ = 0, count_ = 0;
};

}  // namespace millrace::codecs
