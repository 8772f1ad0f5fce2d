#include "codecs/huffman_tables.h"

#include <algorithm>

namespace millrace {
namespace {

// A value of `size` bits: the upper half of the range stands for itself, the lower half for negative numbers (ISO 10918-1, F.12).
int32_t extend(int32_t raw, int size) { return size == 0 || raw >> (size - 1) ? raw : raw - (1 << size) + 1; }

// Calls fill(first, count, symbol, length) with the range of `bits`-bit prefixes that begin with each code of at most that length.
template <class Fill>
void for_each_code(const HuffmanSpec& spec, int bits, Fill fill) {
  uint32_t code = 0;
  size_t index = 0;
  for (int length = 1; length <= bits; ++length, code <<= 1)
    for (int i = 0; i < spec.counts[static_cast<size_t>(length - 1)]; ++i, ++code, ++index)
      fill(code << (bits - length), 1u << (bits - length), spec.symbols[index], length);
}

// The codes of at most kLookupBits by the prefixes that begin with them; length 0 marks the others.
struct ShortCodes {
  struct Code {
    uint8_t length = 0, symbol = 0;
  };
  std::array<Code, 1 << kLookupBits> at{};

  explicit ShortCodes(const HuffmanSpec& spec) {
    for_each_code(spec, kLookupBits, [&](uint32_t first, uint32_t count, uint8_t symbol, int length) {
      std::fill_n(at.begin() + first, count, Code{static_cast<uint8_t>(length), symbol});
    });
  }
};

// The symbol behind the first `used` bits of a look-up, as far as the look-up shows it.
struct Seen {
  bool code = false;      // the whole code
  bool sign = false;      // and the first extra bit, if it has any
  uint32_t length = 0;    // code and extra bits
  uint32_t step = 0;
  int32_t value = 0;      // with zeros for the bits that are missing
  uint32_t missing = 0;

  Seen(const ShortCodes& codes, uint32_t prefix, uint32_t used) {
    constexpr uint32_t kMask = (1u << kLookupBits) - 1;
    const uint32_t bits = prefix << used & kMask;
    const ShortCodes::Code found = codes.at[bits];
    const uint32_t size = found.symbol & 15, run = found.symbol >> 4;
    // Runs 1..14 without a value belong to progressive files: the slow path turns them down.
    if (found.length == 0 || found.length + used > kLookupBits || (size == 0 && run != 0 && run != 15)) return;
    length = found.length + size;
    if (length + used > kMostTaken) return;
    code = true;
    step = found.symbol == 0 ? AcTable::kEndOfBlock : run + 1;
    const uint32_t seen = std::min(size, kLookupBits - used - found.length);
    sign = size == 0 || seen > 0;
    missing = size - seen;
    const uint32_t raw = seen == 0 ? 0 : (bits << found.length & kMask) >> (kLookupBits - seen) << missing;
    value = extend(static_cast<int32_t>(raw), static_cast<int>(size));
  }
};

AcTable::Pair make_pair(const ShortCodes& codes, uint32_t prefix) {
  const auto value_bits = [](const Seen& s) { return AcTable::Pair{static_cast<uint16_t>(s.value)}; };
  const Seen first(codes, prefix, 0);
  if (!first.sign) return AcTable::Pair{AcTable::kSlow} << 8 | AcTable::Pair{63} << 24;
  AcTable::Pair pair = first.length | AcTable::Pair{first.step} << 8 | value_bits(first) << 32;
  if (first.missing == 0 && first.step != AcTable::kEndOfBlock) {
    const Seen second(codes, prefix, first.length);
    if (second.sign)
      return (pair + second.length) | AcTable::Pair{second.step} << 16 | AcTable::Pair{63 - second.missing} << 24 | value_bits(second) << 48;
  }
  return pair | AcTable::Pair{63 - first.missing} << 24 | value_bits(first) << 48;
}

AcTable::Skip make_skip(const ShortCodes& codes, uint32_t prefix) {
  uint32_t used = 0, step = 0;
  while (used < kLookupBits && step < AcTable::kSkipEnd) {
    const Seen next(codes, prefix, used);
    const bool end = next.step == AcTable::kEndOfBlock;
    if (!next.code || (!end && step + next.step > 63)) break;
    used += next.length;
    step += end ? AcTable::kSkipEnd : next.step;
  }
  return static_cast<AcTable::Skip>(used == 0 ? AcTable::kSkipSlow << 8 : step << 8 | used);
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
  const ShortCodes codes(spec);
  for (uint32_t prefix = 0; prefix < pairs.size(); ++prefix) {
    pairs[prefix] = make_pair(codes, prefix);
    skips[prefix] = make_skip(codes, prefix);
  }
  return true;
}

}  // namespace millrace
