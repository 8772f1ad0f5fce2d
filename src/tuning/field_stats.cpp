#include "tuning/field_stats.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "millrace/error.h"

namespace millrace::tuning {

void Comoments::add(const std::vector<double>& numbers) {
  const size_t n = numbers.size();
  mean.resize(n);
  m2.resize(n * n);
  ++count;
  std::vector<double> apart(n);
  for (size_t i = 0; i < n; ++i) apart[i] = numbers[i] - mean[i];
  for (size_t i = 0; i < n; ++i) mean[i] += apart[i] / static_cast<double>(count);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) m2[i * n + j] += apart[i] * (numbers[j] - mean[j]);
}

void Comoments::merge(const Comoments& other) {
  if (other.count == 0 || (count > 0 && other.mean.size() != mean.size())) return;
  if (count == 0) {
    *this = other;
    return;
  }
  const size_t n = mean.size();
  const double ours = static_cast<double>(count), theirs = static_cast<double>(other.count),
               all = ours + theirs;
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j)
      m2[i * n + j] +=
          other.m2[i * n + j] + (other.mean[i] - mean[i]) * (other.mean[j] - mean[j]) * ours * theirs / all;
  for (size_t i = 0; i < n; ++i) mean[i] += (other.mean[i] - mean[i]) * theirs / all;
  count += other.count;
}

void FieldStats::begin(const BatchView& view, bool is_lengths, const FieldReference* reference) {
  layout = layout_of(view);
  is_lengths_ = is_lengths;
  if (is_lengths) layout.counted = layout.padded = false;
  type = view.type;
  if (!view.sizes.empty()) row_sizes.assign(view.sizes.begin() + 1, view.sizes.end());
  series.resize(static_cast<size_t>(layout.series));
  if (layout.padded || view.ragged) lengths.emplace();
  if (layout.counted) counts.resize(series.size());
  if (reference == nullptr) return;
  for (size_t s = 0; s < series.size() && s < reference->series.size(); ++s)
    series[s].frame = reference->series[s].frame;
  if (lengths) lengths->frame = reference->lengths ? reference->lengths->frame : Frame{0, 1, 0};
}

bool FieldStats::takes(const BatchView& view) const {
  FieldLayout found = layout_of(view);
  return found.series == layout.series && found.series_axis == layout.series_axis &&
         (is_lengths_ || found.counted == layout.counted);
}

FieldBatch FieldStats::add(SampledBatch batch, int64_t rows, const FieldReference* reference) {
  samples += rows;
  ++batches;
  if (framed()) return processed(batch, reference);
  opening_rows_ += batch.rows.size();
  opening_.push_back(std::move(batch));
  if (opening_rows_ >= kOpeningRows) settle();
  return {};
}

void FieldStats::settle() {
  if (opening_.empty()) return;
  std::vector<std::vector<double>> finite(series.size());
  std::vector<double> ends;
  for (const SampledBatch& batch : opening_)
    for (const SampledRow& row : batch.rows) {
      for (size_t i = 0; i < row.each * series.size(); ++i) {
        const double x = batch.values[row.begin + i];
        if (std::isfinite(x)) finite[layout.channels ? 0 : i / row.each].push_back(x);
      }
      ends.push_back(row.length);
    }
  const Frame shared = layout.channels ? choose_frame(finite[0]) : Frame{};
  for (size_t s = 0; s < series.size(); ++s)
    series[s].frame = layout.channels ? shared : choose_frame(std::move(finite[s]));
  if (lengths) lengths->frame = choose_frame(std::move(ends));
  for (const SampledBatch& batch : std::exchange(opening_, {})) processed(batch, nullptr);
}

FieldBatch FieldStats::processed(const SampledBatch& batch, const FieldReference* reference) {
  FieldBatch found;
  found.series.resize(series.size());
  if (reference)
    for (const auto& weights : reference->class_weights) found.classes.emplace_back(weights.size());
  std::vector<double> locations(series.size());
  for (const SampledRow& row : batch.rows) {
    if (lengths)
      lengths->add_sample(&row.length, 1, reference && reference->lengths ? &*reference->lengths : nullptr,
                          found.lengths);
    if (row.each == 0) continue;
    for (size_t s = 0; s < series.size(); ++s) {
      const double* const numbers = batch.values.data() + row.begin + s * row.each;
      locations[s] = series[s].add_sample(numbers, row.each, reference ? &reference->series[s] : nullptr,
                                          found.series[s]);
      if (counts.empty()) continue;
      for (size_t i = 0; i < row.each; ++i) {
        const auto number = static_cast<int64_t>(numbers[i]);
        counts[s].add(number);
        if (found.classes.empty()) continue;
        const auto& places = reference->classes[s];
        const auto place = places.find(number);
        const size_t at = place != places.end() ? static_cast<size_t>(place->second) : reference->unseen;
        found.classes[s][at] += 1 / static_cast<double>(row.each);
      }
    }
    if (layout.channels) together.add(locations);
  }
  for (size_t s = 0; s < series.size(); ++s) series[s].end_batch(found.series[s]);
  if (lengths) lengths->end_batch(found.lengths);
  return found;
}

void FieldStats::merge(const FieldStats& other) {
  if (!other.begun()) return;
  if (!begun()) {
    *this = other;
    return;
  }
  if (!(layout == other.layout))
    throw Error(ErrorKind::invalid_argument,
                "profiles can be merged when their fields have the same kinds of shapes; one has " +
                    std::to_string(layout.series) + " series, the other " +
                    std::to_string(other.layout.series));
  samples += other.samples;
  batches += other.batches;
  other_layouts += other.other_layouts;
  if (row_sizes.size() != other.row_sizes.size()) row_sizes.clear();
  for (size_t d = 0; d < row_sizes.size(); ++d)
    if (row_sizes[d] != other.row_sizes[d]) row_sizes[d] = -1;
  const bool same_frames = series[0].frame == other.series[0].frame;
  for (size_t s = 0; s < series.size(); ++s) series[s].merge(other.series[s]);
  if (lengths && other.lengths) lengths->merge(*other.lengths);
  for (size_t s = 0; s < counts.size(); ++s) counts[s].merge(other.counts[s]);
  if (same_frames) together.merge(other.together);  // else it stays that of the first
}

bool FieldStats::only_classes(size_t which) const {
  return which < counts.size() && counts[which].exact() &&
         counts[which].most_frequent(kMostClasses + 1).size() <= kMostClasses;
}

FieldReference FieldStats::reference() const {
  FieldReference result;
  for (const SeriesStats& each : series) result.series.push_back(each.reference());
  if (lengths) result.lengths = lengths->reference();
  result.rest = kMostClasses;
  // Numbers that were dropped while counting cannot be told from new ones: all that are not among the most
  // frequent are one class then.
  const bool exact =
      std::all_of(counts.begin(), counts.end(), [](const ValueCounts& each) { return each.exact(); });
  result.unseen = exact ? kMostClasses + 1 : result.rest;
  for (const ValueCounts& each : counts) {
    auto& places = result.classes.emplace_back();
    auto& weights = result.class_weights.emplace_back(kMostClasses + 2);
    const double total = std::max<double>(1, static_cast<double>(each.total()));
    double once = 0, frequent = 0;
    for (const auto& [number, count] : each.most_frequent(SIZE_MAX)) {
      const size_t place = std::min(places.size(), result.rest);
      places[number] = static_cast<int>(place);
      weights[place] += static_cast<double>(count) / total;
      if (place < result.rest) frequent += static_cast<double>(count) / total;
      once += count == 1 ? 1 / total : 0;
    }
    if (!exact) {
      weights[result.rest] = std::max(0.0, 1 - frequent);
      continue;
    }
    // New ones are to be expected as often as there were ones that came once (Good, "The population
    // frequencies of species", 1953).
    weights[result.unseen] = once;
    weights[result.rest] = std::max(0.0, weights[result.rest] - once);
  }
  return result;
}

void DriftStats::settle() {
  for (auto& entry : fields) entry.second.settle();
}

void DriftStats::merge(const DriftStats& other) {
  for (const auto& [name, field] : other.fields) fields[name].merge(field);
  repeats.merge(other.repeats);
  batches += other.batches;
  samples += other.samples;
}

}  // namespace millrace::tuning
