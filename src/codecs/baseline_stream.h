// BaselineStream: the tables and the layout of a JPEG that our own decoder takes, read from its marker
// segments.
//
// "Ours" are 8-bit Huffman-coded sequential files (SOF0, SOF1) with one scan of grey, or of YCbCr with luma
// sampled 1x1, 2x1 or 2x2 and chroma 1x1. parse() says no to anything else and to anything odd, without
// judging it: libjpeg does that. No allocation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace::codecs {

// One DHT table as the file gives it: how many codes there are of each length 1..16, and the symbols in code
// order.
struct HuffmanSpec {
  bool present = false;
  std::array<uint8_t, 16> counts{};
  std::array<uint8_t, 256> symbols{};
  bool operator==(const HuffmanSpec&) const = default;
};

struct BaselineStream {
  struct Component {
    uint8_t id = 0, quant = 0, dc = 0, ac = 0;  // which quantiser and Huffman tables it uses
  };

  int32_t width = 0, height = 0;
  int components = 0;          // 1 or 3
  int luma_h = 1, luma_v = 1;  // luma's sampling factors; chroma's are 1
  std::array<Component, 3> component{};
  std::array<std::array<int16_t, 64>, 4> quant{};  // in natural (row by row) order
  std::array<HuffmanSpec, 4> dc{}, ac{};
  int32_t restart_interval = 0;  // MCUs between restart markers, 0: none
  size_t scan_begin = 0;         // first byte of entropy-coded data

  bool parse(std::span<const uint8_t> bytes);

 private:
  bool parse_quant(std::span<const uint8_t> segment);
  bool parse_huffman(std::span<const uint8_t> segment);
  bool parse_frame(std::span<const uint8_t> segment);
  bool parse_scan(std::span<const uint8_t> segment);

  unsigned quant_present_ = 0;  // one bit per table
};

// Natural position of the k-th coefficient in zigzag order (ISO 10918-1, figure A.6).
extern const std::array<uint8_t, 64> kZigzag;

}  // namespace millrace::codecs
