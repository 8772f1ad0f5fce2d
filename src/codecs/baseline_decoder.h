// BaselineDecoder: a rectangle of an ordinary JPEG (see baseline_stream.h for which), two to four times as
// fast as libjpeg-turbo and equal to it to the last bit.
//
// Cost: every block above and beside the region is stepped over, for about 3/4 of the cost of decoding it,
// none below is touched; only blocks that the region needs are transformed. Working memory: one row of MCUs,
// the unstuffed scan, Huffman tables; kept between images. It judges nothing: decode() returns false on the
// first thing that is not regular, `out` then holds garbage, and libjpeg_decode has the say. One thread at a
// time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/geometry.h"
#include "codecs/baseline_stream.h"
#include "codecs/entropy_data.h"
#include "codecs/idct.h"
#include "codecs/mcu_reader.h"
#include "codecs/table_cache.h"
#include "codecs/upsample_color.h"

namespace millrace::codecs {

class BaselineDecoder {
 public:
  BaselineDecoder();
  BaselineDecoder(const BaselineDecoder&) = delete;
  BaselineDecoder& operator=(const BaselineDecoder&) = delete;

  // `region` is not empty and has the size of `out`. False: not our kind of file, or not a regular one.
  bool decode(std::span<const uint8_t> bytes, base::Rect region, base::ImageView out);

  // Whether it is our kind of file, with headers, tables and markers that are regular: all but the bits
  // between the markers: their faults are warnings to libjpeg. Costs the unstuffing of the scan.
  bool takes(std::span<const uint8_t> bytes);

 private:
  // A half-open range of samples or blocks.
  struct Range {
    int32_t begin = 0, end = 0;
    int32_t size() const { return end - begin; }
  };
  // Samples of one component in one row of MCUs, and above them (row -1) the last row of the MCUs before.
  struct Plane {
    std::vector<uint8_t> samples;
    ptrdiff_t stride = 0;
    int rows = 0;
    uint8_t* row(int32_t y) { return samples.data() + (y + 1) * stride; }
    void shape(int32_t width, int row_count);
    void keep_last_row();
  };

  bool load(std::span<const uint8_t> bytes, McuReader::Tables& tables);
  bool prepare_tables(McuReader::Tables& tables);
  void plan(base::Rect region);
  bool decode_mcu_row();
  void emit_rows(int32_t mcu_row, base::ImageView out);
  void emit_halved(int32_t y, int32_t mcu_row, uint8_t* to);

  const IdctGroup idct_ = idct_group();
  const UpsampleColor color_ = upsample_color();
  BaselineStream stream_;
  EntropyData data_;
  TableCache<DcTable> dc_tables_;
  TableCache<AcTable> ac_tables_;
  McuReader reader_;

  // The plan for one region.
  base::Rect region_;
  int32_t mcus_per_row_ = 0, mcu_rows_ = 0;  // of the whole picture
  Range chroma_x_;                           // chroma columns that the region needs
  Range mcu_x_, mcu_y_;                      // MCUs to read
  int32_t next_row_ = 0;                     // next row of the region to emit, in picture coordinates

  std::array<Plane, 3> planes_;
  std::vector<uint16_t> cb_sums_, cr_sums_;
  struct alignas(64) Groups {
    int16_t values[McuReader::kMostValues];
  };
  const std::unique_ptr<Groups> groups_ = std::make_unique<Groups>();
};

}  // namespace millrace::codecs
