#include "codecs/huffman_tables.h"

#include <algorithm>

namespace millrace::codecs {
namespace {

// A value of `size` bits: the upper half of the range means itself, the lower half means negative numbers
// (ISO 10918-1, F.12).
int32_t extend(int32_t raw, int size) { return size == 0 || raw >> (size - 1) ? raw : raw - (1 << size) + 1; }

// Calls fill(first, count, symbol, length) with the range of `bits`-bit prefixes that begin with each code of
// at most that length.
template <class Fill>
void for_each_code(const HuffmanSpec& spec, int bits, Fill fill) {
  uint32_t code = 0;
  size_t index = 0;
  for (int length = 1; length <= bits; ++length, code <<= 1)
    for (int i = 0; i < spec.counts[static_cast<size_t>(length - 1)]; ++i, ++code, ++index)
      fill(code << (bits - length), 1u << (bits - length), spec.symbols[index], length);
}

// The first symbol of a prefix of kLookupBits; bits that the prefix lacks count as zeros in the value.
struct alignas(8) First {
  static constexpr uint8_t kNever = 255;
  uint8_t bits_to_read =
      kNever;  // of the prefix that must be known: the code and one extra bit, if it has any,
  uint8_t bits_to_skip =
      kNever;          // or the code alone; more where the symbol is so long that kMostTaken would be passed
  uint8_t length = 0;  // of code and extra bits
  uint8_t step = 0, skip_step = 0;
  int16_t value = 0;
};
constexpr uint32_t kPrefixes = 1u << kLookupBits, kMask = kPrefixes - 1;
using FirstSymbols = std::array<First, kPrefixes>;

void find_first_symbols(const HuffmanSpec& spec, FirstSymbols& symbols) {
  symbols.fill({});
  for_each_code(spec, kLookupBits, [&](uint32_t begin, uint32_t count, uint8_t symbol, int length) {
    const int size = symbol & 15, run = symbol >> 4;
    // Runs 1..14 without a value belong to progressive files: the slow path turns them down.
    if (size == 0 && run != 0 && run != 15) return;
    const int total = length + size, least = total - (kMostTaken - kLookupBits);
    First first;
    first.bits_to_read = static_cast<uint8_t>(std::max(length + (size > 0), least));
    first.bits_to_skip = static_cast<uint8_t>(std::max(length, least));
    first.length = static_cast<uint8_t>(total);
    first.step = static_cast<uint8_t>(symbol == 0 ? AcTable::kEndOfBlock : run + 1u);
    first.skip_step = static_cast<uint8_t>(symbol == 0 ? AcTable::kSkipEnd : run + 1u);
    // The prefixes of this code run through the values, or through their upper bits where not all fit.
    const int seen = std::min(size, kLookupBits - length);
    const uint32_t each = count >> seen;
    for (int32_t upper = 0; upper < 1 << seen; ++upper, begin += each) {
      first.value = static_cast<int16_t>(extend(upper << (size - seen), size));
      std::fill_n(symbols.begin() + begin, each, first);
    }
  });
}

// These two run for each prefix of each new table, so they select by arithmetic: what fits is as random as
// the prefixes.
AcTable::Pair pair_of(const FirstSymbols& symbols, uint32_t prefix) {
  const First first = symbols[prefix];
  if (first.bits_to_read > kLookupBits) return AcTable::Pair{AcTable::kSlow} << 8 | AcTable::Pair{63} << 24;
  const First second = symbols[prefix << first.length & kMask];
  const bool both =
      (first.length + second.bits_to_read <= kLookupBits) & (first.step != AcTable::kEndOfBlock);
  const uint32_t taken = first.length + (both ? second.length : 0u);
  const AcTable::Pair step = first.step, next_step = both ? second.step : 0u;
  const AcTable::Pair value = static_cast<uint16_t>(first.value);
  const AcTable::Pair last_value = static_cast<uint16_t>(both ? second.value : first.value);
  const AcTable::Pair shift = 63 + kLookupBits - std::max<uint32_t>(taken, kLookupBits);
  return taken | step << 8 | next_step << 16 | shift << 24 | value << 32 | last_value << 48;
}

AcTable::Skip skip_of(const FirstSymbols& symbols, uint32_t prefix) {
  const First first = symbols[prefix];
  if (first.bits_to_skip > kLookupBits) return AcTable::kSkipSlow << 8;
  uint32_t taken = first.length, step = first.skip_step;
  for (int i = 0; i < 2; ++i) {  // a fourth symbol hardly ever fits
    const First next = symbols[prefix << taken & kMask];
    const bool too = (taken + next.bits_to_skip <= kLookupBits) & (step < AcTable::kSkipEnd);
    taken += too ? next.length : 0u;
    step += too ? next.skip_step : 0u;
  }
  return static_cast<AcTable::Skip>(step << 8 | taken);
}

}  // namespace

bool CanonicalCode::build(const HuffmanSpec& spec) {
  symbols = spec.symbols;
  uint32_t code = 0;
  int32_t index = 0;
  for (size_t length = 1; length <= 16; ++length, code <<= 1) {
    offset[length] = index - static_cast<int32_t>(code);
    code += spec.counts[length - 1];
    index += spec.counts[length - 1];
    if (code > 1u << length) return false;
    limit[length] = code << (16 - length);
  }
  return true;
}

bool DcTable::build(const HuffmanSpec& spec) {
  if (!canonical.build(spec)) return false;
  lookup.fill({});
  bool valid = true;
  for_each_code(spec, 16, [&](uint32_t, uint32_t, uint8_t symbol, int) { valid &= symbol <= 15; });
  if (!valid) return false;
  for_each_code(spec, kBits, [&](uint32_t first, uint32_t count, uint8_t symbol, int length) {
    const Entry entry{static_cast<uint8_t>(length + symbol), static_cast<uint8_t>(length), symbol};
    std::fill_n(lookup.begin() + first, count, entry);
  });
  return true;
}

bool AcTable::build(const HuffmanSpec& spec) {
  if (!canonical.build(spec)) return false;
  FirstSymbols symbols;
  find_first_symbols(spec, symbols);
  for (uint32_t prefix = 0; prefix < kPrefixes; ++prefix) {
    pairs[prefix] = pair_of(symbols, prefix);
    skips[prefix] = skip_of(symbols, prefix);
  }
  return true;
}

}  // namespace millrace::codecs
