// FieldStats: the statistics of one field of a feed (a tensor of the batches), and DriftStats: of all fields.
//
// Built from the numbers that sample_rows() chose. The first kOpeningRows samples are kept until the frames
// can be chosen from them; a caller that reads before that calls settle() first. Merged over workers, epochs
// and ranks.
// Bounded: a series takes 27 KiB, whole numbers up to 8,192 counts per series. The caller keeps threads
// apart.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tuning/repeats.h"
#include "tuning/row_sampler.h"
#include "tuning/series_stats.h"
#include "tuning/value_counts.h"

namespace millrace::tuning {

// Means of a few numbers and how they vary together.
struct Comoments {
  int64_t count = 0;
  std::vector<double> mean, m2;  // m2: a square matrix, row by row

  void add(const std::vector<double>& numbers);
  void merge(const Comoments& other);
};

struct FieldReference {
  std::vector<SeriesReference> series;
  std::optional<SeriesReference> lengths;
  std::vector<std::map<int64_t, int>>
      classes;                  // of counted series: numbers that are followed one by one, and their places
  size_t rest = 0, unseen = 0;  // the places of all others that the reference has, and of those it has not
  std::vector<std::vector<double>> class_weights;
};

// One batch's part of a field.
struct FieldBatch {
  std::vector<SeriesBatch> series;
  SeriesBatch lengths;
  std::vector<std::vector<double>> classes;  // shares of each place, summed over samples
};

class FieldStats {
 public:
  static constexpr size_t kOpeningRows = 128;
  static constexpr size_t kMostClasses = 62;

  FieldLayout layout;
  base::DType type = base::DType::f32;
  std::vector<int64_t> row_sizes;  // -1: not the same in all batches
  int64_t samples = 0, batches = 0;
  int64_t other_layouts = 0;  // batches that were left out because their shape is of another kind
  std::vector<SeriesStats> series;
  std::optional<SeriesStats> lengths;
  std::vector<ValueCounts> counts;
  Comoments together;  // of the channels' locations

  // `view` says type and shape; `is_lengths`: the field is lengths of something. Frames are the reference's,
  // if there is one.
  void begin(const BatchView& view, bool is_lengths, const FieldReference* reference);
  bool begun() const { return !series.empty(); }
  bool takes(const BatchView& view) const;
  // Adds a batch; the result is empty while frames are not chosen.
  FieldBatch add(SampledBatch batch, int64_t rows, const FieldReference* reference);
  void settle();
  void merge(const FieldStats& other);  // both settled
  FieldReference reference() const;     // settled
  bool only_classes(
      size_t which) const;  // few whole numbers: their mean says nothing that their shares do not

 private:
  FieldBatch processed(const SampledBatch& batch, const FieldReference* reference);
  bool framed() const { return series.empty() || series[0].frame.scale > 0; }

  bool is_lengths_ = false;
  std::vector<SampledBatch> opening_;
  size_t opening_rows_ = 0;
};

struct DriftStats {
  std::map<std::string, FieldStats> fields;
  Repeats repeats;
  int64_t batches = 0, samples = 0;  // looked at

  void settle();
  void merge(const DriftStats& other);  // both settled
};

}  // namespace millrace::tuning
