// RowSampler: chooses the numbers of a batch to look at, and gives them as doubles.
//
// Rows are spread evenly over the batch, at most `most_rows`; of each row, at most `most_values` numbers per
// series (a channel, a column, or the whole row), in 16 runs of neighbours spread evenly over it; the
// runs' places turn with `turn`. All are looked at where there are no more. Nothing is random, so the same
// batch and turn give the same numbers. Reads the tensor's memory while it runs; the caller keeps it. Any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"

namespace millrace::tuning {

// A strided tensor; its first dimension is the samples.
struct BatchView {
  const uint8_t* data = nullptr;
  base::DType type = base::DType::u8;
  std::vector<int64_t> sizes, strides;  // strides in elements
  bool ragged = false;  // one sample of a field with samples of different sizes; the first size is 1

  int64_t rows() const { return sizes.empty() ? 1 : sizes[0]; }
};

// The meaning of a field's numbers, by its type and shape.
struct FieldLayout {
  int series_axis = -1;  // the dimension of channels or columns; -1: one series
  int64_t series = 1;
  bool channels =
      false;  // 2 to 4 series over one kind of number, as a picture's: they share a frame, and may be swapped
  bool counted = false;  // whole numbers that name something: labels, tokens
  bool padded = false;   // rows of tokens with ends that may be filled up

  bool operator==(const FieldLayout&) const = default;
};
FieldLayout layout_of(const BatchView& batch);

struct SampledRow {
  size_t begin = 0;  // in `values`: series by series, `each` numbers of each
  size_t each = 0;
  double length = 0;  // of padded fields: numbers without a run of equal ones at the end or the beginning
  uint64_t hash = 0;  // of up to 4 KiB of the row
};

struct SampledBatch {
  std::vector<SampledRow> rows;
  std::vector<double> values;
};

struct SampleLimits {
  int64_t most_rows = 256, most_values = 256;
};

// Appends to `out`. Throws Error(invalid_argument) for complex numbers.
void sample_rows(const BatchView& batch, const FieldLayout& layout, const SampleLimits& limits, uint64_t turn,
                 SampledBatch& out);

}  // namespace millrace::tuning
