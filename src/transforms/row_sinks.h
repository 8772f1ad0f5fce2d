// RowSinks: where the finished rows of a stage go: into a picture, into planes of numbers, or through changes
// of colour.
//
// A row is written between begin() and end(); up to kRowGroup rows may be open. One owner, one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "base/geometry.h"
#include "transforms/color_rows.h"
#include "transforms/kernels.h"
#include "transforms/sample_plan.h"
#include "transforms/value_table.h"

namespace millrace::transforms {

class RowSink {
 public:
  virtual ~RowSink() = default;
  virtual uint8_t* begin(int32_t y) = 0;
  virtual void end(
      int32_t y,
      const uint8_t* row) = 0;  // `row`: the result of begin(), or finished pixels that lie elsewhere
  // Writes a whole row that is only a blend of others.
  virtual void blend(int32_t y, const uint8_t* const* rows, std::span<const TapPair> weights, int32_t width) {
    uint8_t* out = begin(y);
    blend_rows(rows, weights.data(), static_cast<int>(weights.size()), width, out);
    end(y, out);
  }
};

class ImageSink final : public RowSink {
 public:
  explicit ImageSink(base::ImageView image) : image_(image) {}
  uint8_t* begin(int32_t y) override { return image_.row(y); }
  void end(int32_t y, const uint8_t* row) override {
    if (row != image_.row(y)) std::memcpy(image_.row(y), row, size_t(image_.width) * base::kPixelBytes);
  }

 private:
  base::ImageView image_;
};

class PlaneSink final : public RowSink {
 public:
  PlaneSink(base::ImageView rows, PictureSize size, const ValueTable& table, void* out)
      : rows_(rows), size_(size), table_(table), out_(static_cast<std::byte*>(out)),
        unwanted_(table.planes == 3 ? 0 : size_t(size.width) * base::dtype_bytes(table.type)) {}
  uint8_t* begin(int32_t y) override { return rows_.row(y % kRowGroup); }
  void end(int32_t y, const uint8_t* row) override {
    store_row(row, size_.width, table_, planes_at(y).data());
  }
  void blend(int32_t y, const uint8_t* const* rows, std::span<const TapPair> weights,
             int32_t width) override {
    if (!table_.math_is_exact) return RowSink::blend(y, rows, weights, width);
    blend_to_planes(rows, weights.data(), static_cast<int>(weights.size()), width, table_,
                    planes_at(y).data());
  }

 private:
  std::array<void*, 3> planes_at(int32_t y) {
    const size_t element = base::dtype_bytes(table_.type),
                 plane = size_t(size_.width) * size_.height * element;
    if (table_.interleaved) {
      std::byte* const row = out_ + size_t(y) * size_.width * 3 * element;
      return {row, row + element, row + 2 * element};
    }
    std::byte* first = out_ + size_t(y) * size_.width * element;
    if (table_.planes == 1) return {first, unwanted_.data(), unwanted_.data()};
    return {first, first + plane, first + 2 * plane};
  }

  base::ImageView rows_;
  PictureSize size_;
  const ValueTable& table_;
  std::byte* out_;
  std::vector<std::byte> unwanted_;  // where a row of the planes goes that nobody wants
};

class ColorSink final : public RowSink {
 public:
  // `steps` without contrast.
  ColorSink(std::span<const ColorStep> steps, int32_t width, RowSink& next)
      : steps_(steps), width_(width), next_(next) {}
  uint8_t* begin(int32_t y) override { return next_.begin(y); }
  void end(int32_t y, const uint8_t* row) override {
    if (!steps_.empty()) {
      uint8_t* out = next_.begin(y);
      change_colors(steps_, row, width_, out);
      row = out;
    }
    next_.end(y, row);
  }

 private:
  std::span<const ColorStep> steps_;
  int32_t width_;
  RowSink& next_;
};

}  // namespace millrace::transforms
