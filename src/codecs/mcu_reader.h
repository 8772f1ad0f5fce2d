// McuReader: walks the MCUs of a baseline scan in order, reading the wanted ones and stepping over the rest.
//
// Cost: an unwanted MCU takes about 3/4 of the time of a wanted one; with restart markers, it jumps to the
// next segment that has wanted ones. Any irregularity (a bad code, a coefficient too many, data that ends
// early, a segment missing) makes the call return false, and the scan is then not ours. One thread; borrows
// stream, data and tables, which must outlive it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "codecs/baseline_stream.h"
#include "codecs/block_reader.h"
#include "codecs/entropy_data.h"
#include "codecs/huffman_tables.h"

namespace millrace::codecs {

class McuReader {
 public:
  static constexpr int kMostBlocks = 6, kMostMcus = kGroupBlocks;  // of one MCU, of one read()
  static constexpr size_t kMostValues = kMostBlocks * kGroupStride;

  struct Tables {
    std::array<const DcTable*, 3> dc{};
    std::array<const AcTable*, 3> ac{};
  };

  void start(const BaselineStream& stream, EntropyData& data, const Tables& tables);

  // The next `count` <= 4 MCUs, into zeroed groups: first luma's, row by row from left to right, then one for
  // each chroma.
  bool read(int count, int16_t* groups);

  bool skip(int64_t count);

  // What the loops touch; public for them alone.
  struct State {
    BlockReader bits;
    std::array<int32_t, 3> dc{};  // predictions
    Tables tables;
    int blocks = 0;                                // in an MCU
    std::array<uint8_t, kMostBlocks> component{};  // of each block
    std::array<std::array<uint16_t, kMostBlocks>, kMostMcus>
        position{};  // where each block of each MCU goes in the groups
  };

 private:
  bool next_segment();

  State state_;
  EntropyData* data_ = nullptr;
  int64_t segment_ = 0;   // the one after the current
  int64_t interval_ = 0;  // MCUs in a segment
  int64_t left_ = 0;      // MCUs left in the current segment
};

}  // namespace millrace::codecs
