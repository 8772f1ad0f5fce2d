// EntropyData, the Huffman tables and BlockReader against an encoder written here.
#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "codecs/block_reader.h"
#include "codecs/entropy_data.h"
#include "codecs/entropy_kernels.h"
#include "codecs/huffman_tables.h"
#include "codecs/table_cache.h"
#include "jpeg_files.h"

namespace millrace::codecs {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes segment_of(EntropyData& data, size_t segment) {
  const auto bytes = data.open(segment);
  return {bytes.begin(), bytes.end()};
}

TEST(EntropyData, TakesOutStuffingAndCutsAtRestartMarkers) {
  EntropyData data;
  const Bytes scan = {1, 0xFF, 0, 2, 0xFF, 0xD0, 3, 0xFF, 0, 0xFF, 0, 0xFF, 0xD1, 0xFF, 0xD9, 77};
  ASSERT_TRUE(data.load(scan, true));
  ASSERT_EQ(data.segments(), 3u);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(segment_of(data, 1), (Bytes{3, 0xFF, 0xFF}));
    EXPECT_EQ(segment_of(data, 2), Bytes{});
    EXPECT_EQ(segment_of(data, 0), (Bytes{1, 0xFF, 2}));
  }
}

TEST(EntropyData, RefusesWhatIsNotRegular) {
  EntropyData data;
  for (const Bytes& scan : {Bytes{}, Bytes{1, 2, 3}, Bytes{0xFF}, Bytes{1, 0xFF}, Bytes{1, 0xFF, 0},
                            Bytes{1, 0xFF, 0xD1, 0xFF, 0xD9}, Bytes{1, 0xFF, 0xDC, 0xFF, 0xD9},
                            Bytes{1, 0xFF, 0xFF, 0xD9}, Bytes{1, 0xFF, 0xD0, 2, 0xFF, 0xD0, 3, 0xFF, 0xD9}}) {
    EXPECT_FALSE(data.load(scan, true));
    EXPECT_FALSE(data.load(scan, false));
  }
  Bytes wrap;  // RST7 is followed by RST0
  for (uint8_t i = 0; i < 9; ++i) wrap.insert(wrap.end(), {i, 0xFF, static_cast<uint8_t>(0xD0 + i % 8)});
  wrap.insert(wrap.end(), {0xFF, 0xD9});
  EXPECT_FALSE(data.load(wrap, false));  // not announced
  EXPECT_TRUE(data.load(wrap, true));
  EXPECT_EQ(data.segments(), 10u);
  EXPECT_EQ(segment_of(data, 8), Bytes{8});
}

TEST(EntropyKernels, EveryPlaceAndLength) {
  test::for_each_target([] {
    const EntropyKernels kernels = entropy_kernels();
    std::mt19937 random(1);
    for (size_t size = 0; size < 300; ++size) {
      const size_t marks = random() % 6;
      const std::unique_ptr<uint8_t[]> exact(
          new uint8_t[size]);  // the address sanitizer sees a read behind it
      std::fill_n(exact.get(), size, uint8_t{7});
      for (size_t i = 0; i < marks && size > 0; ++i) {
        const size_t at = random() % size;
        exact[at] = 0xFF;
        if (at + 1 < size) exact[at + 1] = random() % 3 ? 0 : static_cast<uint8_t>(random());
      }
      Bytes expected;
      size_t end = 0;
      for (; end < size; ++end) {
        if (exact[end] == 0xFF && (end + 1 == size || exact[end + 1] != 0)) break;
        expected.push_back(exact[end]);
        if (exact[end] == 0xFF) ++end;
      }
      EXPECT_EQ(kernels.find_marker(exact.get(), exact.get() + size) - exact.get(),
                static_cast<ptrdiff_t>(end));
      Bytes out(size + EntropyKernels::kSlack);
      uint8_t* to = out.data();
      EXPECT_EQ(kernels.unstuff(exact.get(), exact.get() + size, to) - exact.get(),
                static_cast<ptrdiff_t>(end));
      out.resize(static_cast<size_t>(to - out.data()));
      EXPECT_EQ(out, expected);
    }
  });
}

struct Code {
  uint32_t bits = 0;
  int length = 0;
};

// A random complete-but-one prefix code over `symbols`, in canonical order.
HuffmanSpec random_spec(const std::vector<uint8_t>& symbols, std::mt19937& random) {
  HuffmanSpec spec;
  spec.present = true;
  std::copy(symbols.begin(), symbols.end(), spec.symbols.begin());
  size_t left = symbols.size();
  uint32_t room = 2;  // free codes at this length
  for (int length = 1; length <= 16 && left > 0; ++length, room *= 2) {
    // Keep enough room for the rest: at length 16 there must be a code for each symbol, and one stays unused.
    uint32_t most = 0;
    while (most < room && most < left && ((room - most - 1) << (16 - length)) > left - most - 1) ++most;
    const uint32_t count = length == 16 ? static_cast<uint32_t>(left) : most == 0 ? 0 : random() % (most + 1);
    spec.counts[static_cast<size_t>(length - 1)] = static_cast<uint8_t>(count);
    room -= count;
    left -= count;
  }
  return spec;
}

std::array<Code, 256> codes_of(const HuffmanSpec& spec) {
  std::array<Code, 256> codes{};
  uint32_t code = 0;
  size_t index = 0;
  for (int length = 1; length <= 16; ++length, code <<= 1)
    for (int i = 0; i < spec.counts[static_cast<size_t>(length - 1)]; ++i)
      codes[spec.symbols[index++]] = {code++, length};
  return codes;
}

class BitWriter {
 public:
  void put(uint32_t value, int length) {
    for (int i = length - 1; i >= 0; --i) {
      if (used_++ % 8 == 0) bytes.push_back(0);
      bytes.back() = static_cast<uint8_t>(bytes.back() | (value >> i & 1) << (7 - (used_ - 1) % 8));
    }
  }
  void put(Code code) { put(code.bits, code.length); }
  void put_value(int value, int size) {
    put(static_cast<uint32_t>(value < 0 ? value + (1 << size) - 1 : value), size);
  }
  std::vector<uint8_t> bytes;

 private:
  int used_ = 0;
};

int size_of(int value) {
  int size = 0;
  for (int left = std::abs(value); left > 0; left >>= 1) ++size;
  return size;
}

using Block = std::array<int16_t, 64>;  // in zigzag order

void encode(const Block& block, int dc_before, const std::array<Code, 256>& dc,
            const std::array<Code, 256>& ac, BitWriter& to) {
  const int difference = block[0] - dc_before, size = size_of(difference);
  to.put(dc[static_cast<size_t>(size)]);
  to.put_value(difference, size);
  int run = 0;
  for (size_t k = 1; k < 64; ++k) {
    if (block[k] == 0) {
      ++run;
      continue;
    }
    for (; run > 15; run -= 16) to.put(ac[0xF0]);
    to.put(ac[static_cast<size_t>(run << 4 | size_of(block[k]))]);
    to.put_value(block[k], size_of(block[k]));
    run = 0;
  }
  if (run > 0) to.put(ac[0]);
}

TEST(BlockReader, ReadsAndSkipsWhatAnEncoderWrote) {
  std::mt19937 random(8);
  std::vector<uint8_t> dc_symbols, ac_symbols = {0x00, 0xF0};
  for (uint8_t size = 0; size <= 12; ++size) dc_symbols.push_back(size);
  for (int run = 0; run < 16; ++run)
    for (int size = 1; size <= 10; ++size) ac_symbols.push_back(static_cast<uint8_t>(run << 4 | size));
  const auto dc_table = std::make_unique<DcTable>();
  const auto ac_table = std::make_unique<AcTable>();
  for (int round = 0; round < 60; ++round) {
    std::shuffle(dc_symbols.begin(), dc_symbols.end(), random);
    std::shuffle(ac_symbols.begin(), ac_symbols.end(), random);
    const HuffmanSpec dc_spec = random_spec(dc_symbols, random), ac_spec = random_spec(ac_symbols, random);
    ASSERT_TRUE(dc_table->build(dc_spec));
    ASSERT_TRUE(ac_table->build(ac_spec));
    const auto dc_codes = codes_of(dc_spec), ac_codes = codes_of(ac_spec);

    std::vector<Block> blocks(80);
    BitWriter writer;
    int before = 0;
    for (Block& block : blocks) {
      block = {};
      block[0] = static_cast<int16_t>(static_cast<int>(random() % 2047) - 1023);
      const uint32_t density = random() % 64, spread = 1 + random() % 10;
      for (size_t k = 1; k < 64; ++k)
        if (random() % 64 < density)
          block[k] =
              static_cast<int16_t>(static_cast<int>(random() % ((2u << spread) - 1)) - (1 << spread) + 1);
      if (random() % 3 == 0) block[63] = 5;  // ends without an end-of-block code
      encode(block, before, dc_codes, ac_codes, writer);
      before = block[0];
    }
    const size_t length = writer.bytes.size();
    writer.bytes.resize(length + EntropyData::kTailBytes);

    BlockReader reader;
    reader.start(writer.bytes.data(), writer.bytes.data() + length);
    int dc = 0;
    for (size_t i = 0; i < blocks.size(); ++i) {
      dc += reader.read_dc(*dc_table);
      ASSERT_EQ(dc, blocks[i][0]) << round << " " << i;
      if (random() % 2) {
        ASSERT_TRUE(reader.skip_ac(*ac_table));
        continue;
      }
      std::array<int16_t, kGroupStride> group{};
      ASSERT_TRUE(reader.read_ac(*ac_table, group.data()));
      for (size_t k = 1; k < 64; ++k)
        ASSERT_EQ(group[kGroupZigzag.at[k]], blocks[i][k]) << round << " " << i << " " << k;
      ASSERT_FALSE(reader.overrun());
    }
    EXPECT_FALSE(reader.overrun());
    reader.start(writer.bytes.data(), writer.bytes.data() + length - 1);  // now a byte short
    for (size_t i = 0; i < blocks.size(); ++i) {
      reader.read_dc(*dc_table);
      ASSERT_TRUE(reader.skip_ac(*ac_table));
    }
    EXPECT_TRUE(reader.overrun());
  }
}

TEST(BlockReader, NoticesTheEndAndTooManyCoefficients) {
  // Codes: 0 is a run of 15 zeros and a 1-bit value, 10 an end of block, 110 a run of 15 zeros.
  HuffmanSpec spec;
  spec.counts[0] = spec.counts[1] = spec.counts[2] = 1;
  spec.symbols = {0xF1, 0x00, 0xF0};
  const auto table = std::make_unique<AcTable>();
  ASSERT_TRUE(table->build(spec));
  std::array<uint8_t, 64 + EntropyData::kTailBytes> bytes{};
  std::array<int16_t, kGroupStride> group{};
  const auto ends_well = [&](std::initializer_list<uint8_t> data) {
    bytes.fill(0);
    std::copy(data.begin(), data.end(), bytes.begin());
    BlockReader reader, skipper;
    reader.start(bytes.data(), bytes.data() + data.size());
    skipper.start(bytes.data(), bytes.data() + data.size());
    const bool read = reader.read_ac(*table, group.data()) && !reader.overrun();
    EXPECT_EQ(read, skipper.skip_ac(*table) && !skipper.overrun());
    return read;
  };
  EXPECT_TRUE(ends_well({0b01100000}));               // a run with its value, the end
  EXPECT_TRUE(ends_well({0b01110011, 0b00000000}));   // a run, a run without value, a run, the end
  EXPECT_FALSE(ends_well({0b01010101}));              // four runs reach coefficient 64
  EXPECT_FALSE(ends_well({0b11011011, 0b01101000}));  // as do four runs without a value
  EXPECT_FALSE(ends_well({0b11100000}));              // no such code
  EXPECT_FALSE(ends_well({}));                        // nothing at all
}

TEST(HuffmanTables, RefuseSpecificationsWithTooManyCodes) {
  HuffmanSpec spec;
  spec.counts[0] = 3;
  EXPECT_FALSE(std::make_unique<AcTable>()->build(spec));
  EXPECT_FALSE(std::make_unique<DcTable>()->build(spec));
  spec.counts[0] = 1;
  spec.symbols[0] = 16;  // no DC difference has 16 bits
  EXPECT_FALSE(std::make_unique<DcTable>()->build(spec));
}

TEST(TableCache, KeepsWhatIsUsed) {
  TableCache<DcTable> cache;
  const auto spec_of = [](uint8_t symbol) {
    HuffmanSpec spec;
    spec.counts[0] = 1;
    spec.symbols[0] = symbol;
    return spec;
  };
  const DcTable* first = cache.get(spec_of(0));
  for (uint8_t i = 1; i < 14; ++i) {
    const DcTable* other = cache.get(spec_of(i));
    ASSERT_NE(other, nullptr);
    EXPECT_EQ(other->lookup[0].extra, i);
    EXPECT_EQ(cache.get(spec_of(0)), first);
  }
  EXPECT_EQ(cache.get(spec_of(99)), nullptr);
  EXPECT_EQ(cache.get(spec_of(0)), first);
}

}  // namespace
}  // namespace millrace::codecs
