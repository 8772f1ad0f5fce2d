#include "tuning/series_stats.h"

#include <cmath>

namespace millrace::tuning {
namespace {

constexpr int64_t kLeastBatches = 8;  // fewer say nothing about how batches vary

double nth(std::vector<double>& values, double q) {
  const auto place = static_cast<ptrdiff_t>(q * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<size_t>(place)];
}

// A feature's moments under x -> factor x + offset.
Moments mapped(Moments moments, double factor, double offset) {
  moments.mean = factor * moments.mean + offset;
  moments.m2 *= factor * factor;
  return moments;
}

SeriesStats in_frame(SeriesStats stats, const Frame& frame) {
  const double factor = stats.frame.scale / frame.scale,
               shift = (stats.frame.center - frame.center) / frame.scale;
  for (auto* moments : {&stats.samples, &stats.between}) {
    auto& spread = (*moments)[kSpread];
    spread = mapped(spread, factor * factor, 2 * factor * shift * (*moments)[kLocation].mean + shift * shift);
    (*moments)[kLocation] = mapped((*moments)[kLocation], factor, shift);
  }
  if (stats.frame.origin != frame.origin)
    stats.histogram = stats.histogram.moved(frame.origin - stats.frame.origin);
  for (auto* ends : {&stats.lowest, &stats.highest}) {
    (*ends)[kLocation] = std::clamp(factor * (*ends)[kLocation] + shift, -kMostScore, kMostScore);
    (*ends)[kSpread] = std::clamp(factor * factor * (*ends)[kSpread], 0.0, kMostScore * kMostScore);
  }
  stats.frame = frame;
  return stats;
}

}  // namespace

Frame choose_frame(std::vector<double> finite) {
  Frame frame{0, 1, 0};
  if (finite.empty()) return frame;
  const double low = nth(finite, 0.16), high = nth(finite, 0.84), middle = nth(finite, 0.5);
  double spread = (high - low) / 2;
  if (!(spread > 0)) {
    Moments all;
    all.add(finite.data(), finite.size());
    spread = std::sqrt(all.variance());
  }
  if (!(spread > std::fabs(middle) * 0x1p-40) || !std::isfinite(spread))
    spread = std::max(std::fabs(middle) * 0x1p-10, 0x1p-10);
  frame.scale = std::exp2(std::clamp(std::round(4 * std::log2(spread)) / 4, -1000.0, 1000.0));
  frame.center = std::round(4 * middle / frame.scale) / 4 * frame.scale;
  frame.origin = std::fabs(frame.center) > 8 * frame.scale ? frame.center : 0;
  return frame;
}

double SeriesStats::add_sample(const double* numbers, size_t count, const SeriesReference* reference,
                               SeriesBatch& batch) {
  std::array<double, 256> finite;
  finite[0] = 0;  // a sample without finite numbers adds none of these, which GCC does not see
  Features sums{};
  size_t used = 0;
  const double share = 1 / static_cast<double>(count);
  const auto finite_count =
      std::count_if(numbers, numbers + count, [](double x) { return std::isfinite(x); });
  const double finite_share = 1 / static_cast<double>(std::max<ptrdiff_t>(finite_count, 1));
  for (size_t i = 0; i < count; ++i) {
    const double x = numbers[i];
    if (std::isfinite(x)) {
      finite[used++] = x;
      const double score = frame.score(x);
      sums[kLocation] += score;
      sums[kSpread] += score * score;
      zeros += x == 0;
      sums[kZero] += x == 0;
      least = std::min(least, x);
      most = std::max(most, x);
      const int bucket = ValueHistogram::bucket_of(x - frame.origin);
      histogram.add(bucket);
      if (reference) {
        sums[kOutside] += x < reference->low || x > reference->high;
        batch.bins[reference->bin[static_cast<size_t>(bucket)]] += finite_share;
      }
    } else {
      (std::isnan(x) ? nan : infinite) += 1;
      sums[kNonFinite] += 1;
    }
    if (used == finite.size() || i + 1 == count) {
      values.add(finite.data(), used);
      used = 0;
    }
  }
  for (const Feature feature : {kLocation, kSpread}) sums[feature] *= finite_share;
  for (const Feature feature : {kNonFinite, kZero, kOutside}) sums[feature] *= share;
  if (finite_count == 0) {  // says nothing about the others
    if (reference)
      for (int bin = 0; bin < kBins; ++bin) batch.bins[bin] += reference->weights[bin];
    sums[kLocation] = reference ? reference->location : samples[kLocation].mean;
    sums[kSpread] = samples[kSpread].mean;
  }
  ++batch.rows;
  for (int f = 0; f < kFeatures; ++f) {
    batch.sums[f] += sums[f];
    samples[f].merge({1, sums[f], 0});
    lowest[f] = std::min(lowest[f], sums[f]);
    highest[f] = std::max(highest[f], sums[f]);
  }
  return sums[kLocation];
}

void SeriesStats::end_batch(const SeriesBatch& batch) {
  if (batch.rows == 0) return;
  ++batches;
  for (int f = 0; f < kFeatures; ++f)
    between[f].merge({batch.rows, batch.sums[f] / static_cast<double>(batch.rows), 0});
}

void SeriesStats::merge(const SeriesStats& other) {
  if (other.values.count + other.nan + other.infinite == 0) return;
  if (values.count + nan + infinite == 0) {
    *this = other;
    return;
  }
  const SeriesStats moved = other.frame == frame ? other : in_frame(other, frame);
  values.merge(moved.values);
  least = std::min(least, moved.least);
  most = std::max(most, moved.most);
  nan += moved.nan;
  infinite += moved.infinite;
  zeros += moved.zeros;
  histogram.merge(moved.histogram);
  for (int f = 0; f < kFeatures; ++f) {
    samples[f].merge(moved.samples[f]);
    between[f].merge(moved.between[f]);
    lowest[f] = std::min(lowest[f], moved.lowest[f]);
    highest[f] = std::max(highest[f], moved.highest[f]);
  }
  batches += moved.batches;
}

double SeriesStats::design_effect(Feature feature) const {
  const double within = samples[feature].variance();
  if (batches < kLeastBatches || !(within > 0)) return 1;
  return std::max(1.0, between[feature].m2 / static_cast<double>(batches - 1) / within);
}

double SeriesStats::reach(Feature feature) const {
  const Moments& all = samples[feature];
  return all.count > 0 ? std::max(highest[feature] - all.mean, all.mean - lowest[feature]) : 0;
}

double SeriesStats::range(Feature feature) const {
  const double mean = samples[feature].mean;
  if (feature == kLocation) return kMostScore + std::fabs(mean);
  return feature == kSpread ? std::max(mean, kMostScore * kMostScore - mean) : std::max(mean, 1 - mean);
}

SeriesReference SeriesStats::reference() const {
  SeriesReference result;
  result.frame = frame;
  result.low = least;
  result.high = most;
  result.location = samples[kLocation].mean;
  result.bin.resize(ValueHistogram::kBuckets);
  const double total = std::max(1.0, static_cast<double>(histogram.total()));
  double below = 0;
  for (int bucket = 0; bucket < ValueHistogram::kBuckets; ++bucket) {
    const double share = static_cast<double>(histogram.count(bucket)) / total;
    // A bucket belongs where its middle lies, so that one heavy value is a bin of its own.
    const int bin = std::clamp(static_cast<int>((below + share / 2) * kBins), 0, kBins - 1);
    result.bin[static_cast<size_t>(bucket)] = static_cast<uint8_t>(bin);
    result.weights[static_cast<size_t>(bin)] += share;
    below += share;
  }
  return result;
}

}  // namespace millrace::tuning
