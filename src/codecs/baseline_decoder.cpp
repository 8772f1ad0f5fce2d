#include "codecs/baseline_decoder.h"

#include <algorithm>
#include <cstring>

namespace millrace::codecs {
namespace {

constexpr int32_t kSlack = UpsampleColor::kSlack;

int32_t ceil_div(int32_t a, int32_t b) { return (a + b - 1) / b; }

}  // namespace

BaselineDecoder::BaselineDecoder() = default;

void BaselineDecoder::Plane::shape(int32_t width, int row_count) {
  rows = row_count;
  stride = width + kSlack;
  const size_t bytes = static_cast<size_t>(stride) * static_cast<size_t>(rows + 1);
  if (samples.size() < bytes) samples.resize(bytes);
}

void BaselineDecoder::Plane::keep_last_row() {
  std::memcpy(row(-1), row(rows - 1), static_cast<size_t>(stride));
}

bool BaselineDecoder::load(std::span<const uint8_t> bytes, McuReader::Tables& tables) {
  return stream_.parse(bytes) && prepare_tables(tables) &&
         data_.load(bytes.subspan(stream_.scan_begin), stream_.restart_interval != 0);
}

bool BaselineDecoder::takes(std::span<const uint8_t> bytes) {
  McuReader::Tables tables;
  return load(bytes, tables);
}

bool BaselineDecoder::decode(std::span<const uint8_t> bytes, base::Rect region, base::ImageView out) {
  McuReader::Tables tables;
  if (!load(bytes, tables) || region.right() > stream_.width || region.bottom() > stream_.height)
    return false;
  reader_.start(stream_, data_, tables);
  plan(region);
  if (!reader_.skip(int64_t{mcu_y_.begin} * mcus_per_row_ + mcu_x_.begin)) return false;
  for (int32_t mcu_row = mcu_y_.begin; mcu_row < mcu_y_.end; ++mcu_row) {
    if (mcu_row > mcu_y_.begin && !reader_.skip(mcus_per_row_ - mcu_x_.size())) return false;
    if (!decode_mcu_row()) return false;
    emit_rows(mcu_row, out);
    for (Plane& plane : planes_) plane.keep_last_row();
  }
  return true;
}

bool BaselineDecoder::prepare_tables(McuReader::Tables& tables) {
  for (size_t i = 0; i < static_cast<size_t>(stream_.components); ++i) {
    tables.dc[i] = dc_tables_.get(stream_.dc[stream_.component[i].dc]);
    tables.ac[i] = ac_tables_.get(stream_.ac[stream_.component[i].ac]);
    if (tables.dc[i] == nullptr || tables.ac[i] == nullptr) return false;
  }
  return true;
}

void BaselineDecoder::plan(base::Rect region) {
  const int32_t h = stream_.luma_h, v = stream_.luma_v;
  region_ = region;
  mcus_per_row_ = ceil_div(stream_.width, 8 * h);
  mcu_rows_ = ceil_div(stream_.height, 8 * v);
  next_row_ = region.top;
  // Where chroma is halved, an even pixel needs the chroma sample before its own, an odd one the sample after
  // it.
  const auto chroma = [](int32_t begin, int32_t end, int32_t size, int32_t factor) {
    if (factor == 1) return Range{begin, end};
    return Range{std::max(0, (begin - 1) >> 1), std::min((size + 1) / 2, (end >> 1) + 1)};
  };
  chroma_x_ = chroma(region.left, region.right(), stream_.width, h);
  const Range chroma_y = chroma(region.top, region.bottom(), stream_.height, v);
  mcu_x_ = {chroma_x_.begin / 8, ceil_div(chroma_x_.end, 8)};
  mcu_y_ = {chroma_y.begin / 8, ceil_div(chroma_y.end, 8)};

  const int32_t width = ceil_div(mcu_x_.size(), McuReader::kMostMcus) * McuReader::kMostMcus * 8;
  for (Plane& plane : planes_)
    plane.shape(&plane == &planes_[0] ? width * h : width, &plane == &planes_[0] ? 8 * v : 8);
  const size_t sums = static_cast<size_t>(chroma_x_.size() + 2 * kSlack);
  if (cb_sums_.size() < sums) cb_sums_.resize(sums);
  if (cr_sums_.size() < sums) cr_sums_.resize(sums);
}

bool BaselineDecoder::decode_mcu_row() {
  const int32_t h = stream_.luma_h, v = stream_.luma_v;
  const size_t used = static_cast<size_t>(h * v + stream_.components - 1) * kGroupStride * sizeof(int16_t);
  for (int32_t mcu = mcu_x_.begin; mcu < mcu_x_.end; mcu += McuReader::kMostMcus) {
    std::memset(groups_->values, 0, used);
    if (!reader_.read(std::min(McuReader::kMostMcus, mcu_x_.end - mcu), groups_->values)) return false;
    const int16_t* group = groups_->values;
    const ptrdiff_t x = ptrdiff_t{mcu - mcu_x_.begin} * 8;
    bool in_range = true;
    const auto transform = [&](size_t component, int32_t row, ptrdiff_t column) {
      Plane& plane = planes_[component];
      in_range &= idct_(group, stream_.quant[stream_.component[component].quant].data(),
                        plane.row(row) + column, plane.stride);
      group += kGroupStride;
    };
    for (int32_t i = 0; i < v; ++i)
      for (int32_t j = 0; j < h; ++j) transform(0, 8 * i, x * h + j * ptrdiff_t{kGroupRow});
    for (int c = 1; c < stream_.components; ++c) transform(static_cast<size_t>(c), 0, x);
    if (!in_range) return false;
  }
  return true;
}

void BaselineDecoder::emit_rows(int32_t mcu_row, base::ImageView out) {
  const int32_t rows = 8 * stream_.luma_v;
  // With halved chroma rows, the last row of these MCUs needs the first chroma row of the next.
  const int32_t ready =
      mcu_row + 1 == mcu_rows_ ? stream_.height : (mcu_row + 1) * rows - (stream_.luma_v == 2 ? 1 : 0);
  for (const int32_t end = std::min(ready, region_.bottom()); next_row_ < end; ++next_row_) {
    uint8_t* to = out.row(next_row_ - region_.top);
    const int32_t y = next_row_ - mcu_row * rows;
    const ptrdiff_t x = region_.left - mcu_x_.begin * 8;
    const auto width = static_cast<size_t>(region_.width);
    if (stream_.components == 1)
      color_.grey(planes_[0].row(y) + x, width, to);
    else if (stream_.luma_h == 1)
      color_.full(planes_[0].row(y) + x, planes_[1].row(y) + x, planes_[2].row(y) + x, width, to);
    else
      emit_halved(next_row_, mcu_row, to);
  }
}

void BaselineDecoder::emit_halved(int32_t y, int32_t mcu_row, uint8_t* to) {
  const bool halved_rows = stream_.luma_v == 2;
  int32_t near = y, far = y;
  if (halved_rows) {
    near = y >> 1;
    far = y & 1 ? std::min(near + 1, (stream_.height + 1) / 2 - 1) : std::max(near - 1, 0);
  }
  const int32_t first_column = mcu_x_.begin * 8, first_row = mcu_row * 8;
  const auto count = static_cast<size_t>(chroma_x_.size());
  const auto blend = [&](Plane& plane, std::vector<uint16_t>& buffer) {
    uint16_t* sums = buffer.data() + kSlack;
    const ptrdiff_t x = chroma_x_.begin - first_column;
    color_.blend(plane.row(near - first_row) + x, plane.row(far - first_row) + x, count, sums);
    // Needed at the picture's edges, harmless elsewhere.
    sums[-1] = sums[0];
    sums[count] = sums[count - 1];
    return sums + ((region_.left >> 1) - chroma_x_.begin);
  };
  const uint16_t* cb = blend(planes_[1], cb_sums_);
  const uint16_t* cr = blend(planes_[2], cr_sums_);
  const uint8_t* luma =
      planes_[0].row(y - first_row * stream_.luma_v) + 2 * ((region_.left >> 1) - first_column);
  color_.halved(luma, cb, cr, halved_rows ? 8 : 4, halved_rows ? 7 : 8, static_cast<size_t>(region_.left & 1),
                static_cast<size_t>(region_.width), to);
}

}  // namespace millrace::codecs
