// SeriesStats: statistics of one stream of numbers: of a column, of a channel, of a field's lengths.
//
// Beside moments, extremes and a histogram of the values, it has five features of each sample, all bounded:
// their means over samples obey limits that hold for any distribution; drift is judged by these limits
// (drift_tracker.h). Bounded means of a Frame: (x - center) / scale, cut off at 2 (Huber's score, "Robust
// estimation of a location parameter", 1964). A frame comes from the first window's quantiles, rounded to
// quarters of powers of two, so that ranks which saw different parts mostly agree on it. The caller keeps
// threads apart.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "tuning/moments.h"
#include "tuning/value_histogram.h"

namespace millrace::tuning {

inline constexpr double kMostScore = 2;

struct Frame {
  double center = 0, scale = 0;  // scale 0: not chosen yet
  double origin = 0;             // taken off before the histogram, where values lie far from zero

  double score(double x) const { return std::clamp((x - center) / scale, -kMostScore, kMostScore); }
  bool operator==(const Frame&) const = default;
};
Frame choose_frame(std::vector<double> finite);

// Of one sample: the mean score, the mean squared score, and shares of its numbers.
enum Feature : int { kLocation, kSpread, kNonFinite, kZero, kOutside, kFeatures };
using Features = std::array<double, kFeatures>;

constexpr Features filled(double value) {
  Features features{};
  features.fill(value);
  return features;
}

inline constexpr int kBins = 16;  // of equal weight in the reference, for comparing shapes

// What a reference says about a series while batches are looked at: its frame, its range, its bins.
struct SeriesReference {
  Frame frame;
  double low = 0, high = 0;
  double location = 0;                  // of samples without a finite number
  std::vector<uint8_t> bin;             // of each bucket
  std::array<double, kBins> weights{};  // the reference's share of each bin
};

// One batch's part: sums over its samples.
struct SeriesBatch {
  int64_t rows = 0;
  Features sums{};
  std::array<double, kBins> bins{};
};

struct SeriesStats {
  Frame frame;
  Moments values;  // of finite numbers
  double least = std::numeric_limits<double>::infinity(), most = -std::numeric_limits<double>::infinity();
  int64_t nan = 0, infinite = 0, zeros = 0;
  ValueHistogram histogram;  // of finite numbers, minus the frame's origin
  std::array<Moments, kFeatures> samples;
  std::array<Moments, kFeatures> between;  // of batches' means, weighted by their samples
  Features lowest = filled(std::numeric_limits<double>::infinity()),
           highest = filled(-std::numeric_limits<double>::infinity());
  int64_t batches = 0;

  // One sample's numbers; its mean score is returned. The frame has been chosen.
  double add_sample(const double* numbers, size_t count, const SeriesReference* reference,
                    SeriesBatch& batch);
  void end_batch(const SeriesBatch& batch);
  // Frames may differ: then features are carried over by their linear part, and histograms by the middles of
  // their buckets.
  void merge(const SeriesStats& other);

  // How much more a batch's mean varies than it would if its samples were drawn one by one; at least 1. Kish,
  // "Survey Sampling" (1965).
  double design_effect(Feature feature) const;
  double reach(Feature feature) const;  // the furthest that a sample was from the mean
  double range(Feature feature) const;  // the furthest that one can be
  SeriesReference reference() const;
};

}  // namespace millrace::tuning
