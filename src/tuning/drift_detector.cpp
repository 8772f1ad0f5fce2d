#include "tuning/drift_detector.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace millrace::tuning {
namespace {

// Shifts below which nothing is reported, in units of the feature.
constexpr double kLeastMean = 0.1, kLeastSpread = 0.15, kLeastShare = 0.005, kLeastZeros = 0.05;
constexpr double kLeastDistance = 0.08, kLeastClass = 0.02, kLeastRepeats = 0.25;

constexpr std::array<const char*, kFeatures> kKinds{"mean", "spread", "nan", "zeros", "range"};

double samples_of(const SeriesStats& stats) { return static_cast<double>(stats.samples[0].count); }

}  // namespace

DriftDetector::DriftDetector(const DriftStats& reference, const DriftOptions& options)
    : options_(options), steps_(FeatureTracker::kLongest) {
  for (const auto& [name, stats] : reference.fields) {
    if (!stats.begun()) continue;
    fields_[name].reference = stats.reference();
    const FieldReference& expected = fields_[name].reference;
    for (size_t s = 0; s < stats.series.size(); ++s) {
      const auto series = static_cast<int64_t>(s);
      if (!stats.only_classes(s)) watch_series(name, stats.series[s], series, true);
      if (stats.layout.counted) watch_classes(name, stats, expected, series);
    }
    if (stats.lengths) watch_series(name, *stats.lengths, -1, false);
    if (stats.layout.channels && stats.together.count > 1) {
      Channels channels{name, stats.together.mean, stats.together.m2, {}, false};
      for (double& each : channels.covariance) each /= static_cast<double>(stats.together.count);
      for (const SeriesStats& each : stats.series)
        channels.trackers.emplace_back(
            Expected{each.samples[kLocation].mean, each.samples[kLocation].variance(), each.range(kLocation),
                     each.reach(kLocation), samples_of(each), each.design_effect(kLocation)});
      channels_.push_back(std::move(channels));
    }
  }
  const Repeats& repeats = reference.repeats;
  if (repeats.comparisons > 0) {
    collisions_ = static_cast<double>(repeats.recent) / static_cast<double>(repeats.comparisons);
    const double share = std::min(0.5, collisions_ * static_cast<double>(Repeats::kRecent));
    Watched watched{"", "duplicates", 0, {}, {}, true, 0, false};
    watched.trackers.emplace_back(Expected{0, share * (1 - share), 1, 1, static_cast<double>(repeats.samples),
                                           1, kLeastRepeats * options_.least, true});
    watched_.push_back(std::move(watched));
  }
  double features = 24.0 * static_cast<double>(channels_.size());
  for (const Watched& each : watched_) features += static_cast<double>(each.trackers.size()) + 1;
  tests_ = std::max(1.0, features * FeatureTracker::kWindows);
}

const FieldReference* DriftDetector::reference(const std::string& field) const {
  const auto found = fields_.find(field);
  return found == fields_.end() ? nullptr : &found->second.reference;
}

void DriftDetector::watch_series(const std::string& field, const SeriesStats& stats, int64_t series,
                                 bool shape) {
  const double samples = samples_of(stats);
  const auto watch = [&](const char* kind, std::vector<FeatureTracker> trackers) {
    fields_[field].watched.push_back(watched_.size());
    watched_.push_back({field, kind, series, std::move(trackers), {}, false, 0, false});
  };
  for (int f = 0; f < kFeatures; ++f) {
    const auto feature = static_cast<Feature>(f);
    if (!shape && feature != kLocation) continue;
    Expected expected{stats.samples[f].mean,
                      stats.samples[f].variance(),
                      stats.range(feature),
                      stats.reach(feature),
                      samples,
                      stats.design_effect(feature),
                      0,
                      feature != kLocation && feature != kSpread};
    expected.least = options_.least * (feature == kLocation ? kLeastMean
                                       : feature == kSpread ? kLeastSpread * std::max(expected.mean, 0.1)
                                       : feature == kZero   ? kLeastZeros
                                                            : kLeastShare);
    watch(shape ? kKinds[f] : "lengths", {FeatureTracker(expected)});
  }
  if (!shape) return;
  std::vector<FeatureTracker> distances;  // cumulated shares of the bins
  double below = 0;
  for (int bin = 0; bin + 1 < kBins; ++bin) {
    below += fields_[field].reference.series[static_cast<size_t>(series)].weights[static_cast<size_t>(bin)];
    const double share = std::clamp(below, 0.0, 1.0);
    distances.emplace_back(Expected{share, share * (1 - share), 1, 1, samples, stats.design_effect(kLocation),
                                    kLeastDistance * options_.least, true});
  }
  watch("histogram", std::move(distances));
}

void DriftDetector::watch_classes(const std::string& field, const FieldStats& stats,
                                  const FieldReference& reference, int64_t series) {
  Watched watched{field, "classes", series, {}, {}, false, 0, false};
  const auto which = static_cast<size_t>(series);
  watched.labels.resize(reference.class_weights[which].size());
  for (const auto& [number, place] : reference.classes[which])
    watched.labels[static_cast<size_t>(place)] = number;
  for (const double share : reference.class_weights[which])
    watched.trackers.emplace_back(Expected{share, share * (1 - share), 1, share > 0 ? 1.0 : 0.0,
                                           samples_of(stats.series[which]), 1, kLeastClass * options_.least,
                                           true});
  fields_[field].watched.push_back(watched_.size());
  watched_.push_back(std::move(watched));
}

void DriftDetector::begin_batch(int64_t step) {
  steps_[static_cast<size_t>(count_++ % FeatureTracker::kLongest)] = step;
}

void DriftDetector::add(const std::string& field, const FieldBatch& batch) {
  const auto found = fields_.find(field);
  if (found == fields_.end()) return;
  for (const size_t which : found->second.watched) {
    Watched& watched = watched_[which];
    const SeriesBatch& series =
        watched.series < 0 ? batch.lengths : batch.series[static_cast<size_t>(watched.series)];
    feed(watched, series,
         batch.classes.empty() ? nullptr
                               : &batch.classes[static_cast<size_t>(std::max<int64_t>(watched.series, 0))]);
  }
  for (Channels& channels : channels_) {
    if (channels.field != field) continue;
    for (size_t c = 0; c < channels.trackers.size(); ++c)
      channels.trackers[c].add(static_cast<double>(batch.series[c].rows), batch.series[c].sums[kLocation]);
  }
}

void DriftDetector::feed(Watched& watched, const SeriesBatch& batch, const std::vector<double>* classes) {
  const auto rows = static_cast<double>(batch.rows);
  if (watched.kind == "classes") {
    for (size_t c = 0; c < watched.trackers.size(); ++c)
      watched.trackers[c].add(classes ? rows : 0, classes ? (*classes)[c] : 0);
  } else if (watched.kind == "histogram") {
    double below = 0;
    for (size_t bin = 0; bin < watched.trackers.size(); ++bin)
      watched.trackers[bin].add(rows, below += batch.bins[bin]);
  } else {
    const auto kind = std::find(kKinds.begin(), kKinds.end(), watched.kind);
    watched.trackers[0].add(
        rows, batch.sums[kind == kKinds.end() ? 0 : static_cast<size_t>(kind - kKinds.begin())]);
  }
}

void DriftDetector::add_repeats(int64_t samples, int64_t again, int64_t comparisons) {
  for (Watched& watched : watched_)
    if (watched.kind == "duplicates")
      watched.trackers[0].add(static_cast<double>(samples),
                              static_cast<double>(again) - collisions_ * static_cast<double>(comparisons));
}

std::vector<DriftAlarm> DriftDetector::end_batch() {
  std::vector<DriftAlarm> found;
  const auto time = static_cast<double>(count_);
  const double threshold =
      std::log(options_.false_alarms * 6 / (std::numbers::pi * std::numbers::pi * time * time) / tests_);
  for (Channels& channels : channels_) examine_channels(channels, threshold, found);
  for (Watched& watched : watched_) examine(watched, threshold, found);
  return found;
}

bool DriftDetector::examine(Watched& watched, double threshold, std::vector<DriftAlarm>& found) {
  DriftAlarm best;
  double now = 0;  // how far the latest kQuiet batches are from the reference, in units of the least shift
  for (size_t i = 0; i < watched.trackers.size(); ++i) {
    const FeatureTracker& tracker = watched.trackers[i];
    const Expected& expected = tracker.expected();
    if (watched.active) {
      const auto latest = tracker.window(kQuiet);
      now = std::max(now, std::fabs(latest.mean - expected.mean) / std::max(expected.least, 1e-9));
    }
    const auto finding = tracker.strongest();
    if (finding.log_p >= best.log_p || (watched.one_sided && finding.window.mean < expected.mean)) continue;
    best.log_p = finding.log_p;
    best.expected = expected.mean;
    best.seen = finding.window.mean;
    best.samples = finding.window.rows;
    best.since = step_before(finding.window.batches);
    if (watched.kind != "classes") continue;
    best.label = watched.labels[i];
    best.what = i + 2 < watched.trackers.size() ? "one" : i + 2 == watched.trackers.size() ? "others" : "new";
  }
  if (watched.kind == "classes") examine_together(watched, best);
  const bool changed = best.log_p < threshold;
  if (watched.active) {
    // Back when the shift has been below half its least for kQuiet batches: what hovers around a bound is one
    // alarm.
    watched.quiet = now < 0.5 ? watched.quiet + 1 : 0;
    if (watched.quiet < kQuiet) return false;
    watched.active = false;
    best.ended = true;
  } else if (!changed) {
    return false;
  } else {
    watched.active = true;
    watched.quiet = 0;
    if (Channels* const channels = watched.kind == "mean" ? channels_of(watched.field) : nullptr) {
      if (channels->active) return false;  // it has been said
      DriftAlarm order;
      for (int64_t batches = 1; batches <= FeatureTracker::kLongest && batches <= count_; batches *= 2)
        if (step_before(batches) == best.since) examine_order(*channels, batches, order);
      if (!order.order.empty()) {  // which explains it
        channels->active = true;
        order.log_p = best.log_p;
        found.push_back(std::move(order));
        return true;
      }
    }
  }
  best.field = watched.field;
  best.kind = watched.kind;
  best.series = watched.series;
  best.step = step_before(1);
  found.push_back(std::move(best));
  return true;
}

// The distance of all shares together: it changes by at most 1/n with a sample, and is expected to be at most
// sqrt((places - 1) / n) / 2.
void DriftDetector::examine_together(const Watched& watched, DriftAlarm& best) const {
  for (int64_t batches = 1; batches <= FeatureTracker::kLongest && batches <= count_; batches *= 2) {
    double distance = 0, design = 1, rows = 0, expected_samples = 1;
    int places = 0;
    for (const FeatureTracker& tracker : watched.trackers) {
      const auto seen = tracker.window(batches);
      rows = seen.rows;
      expected_samples = tracker.expected().samples;
      distance += std::fabs(seen.mean - tracker.expected().mean) / 2;
      design = std::max(design, seen.design);
      places += tracker.expected().mean > 0;
    }
    if (rows <= 0) return;
    const double n = 1 / (1 / rows + 1 / expected_samples) / design;
    const double more = distance - std::sqrt(std::max(places - 1, 1) / n) / 2;
    if (more <= 0 || distance < kLeastDistance * options_.least) continue;
    const double log_p = -2 * n * more * more;
    if (log_p >= best.log_p) continue;
    best.log_p = log_p;
    best.expected = 0;
    best.seen = distance;
    best.samples = rows;
    best.since = step_before(batches);
    best.what = "all";
  }
}

DriftDetector::Channels* DriftDetector::channels_of(const std::string& field) {
  const auto found = std::find_if(channels_.begin(), channels_.end(),
                                  [&](const Channels& each) { return each.field == field; });
  return found == channels_.end() ? nullptr : &*found;
}

void DriftDetector::examine_channels(Channels& channels, double threshold, std::vector<DriftAlarm>& found) {
  if (channels.active) return;
  DriftAlarm best;
  for (int64_t batches = 1; batches <= FeatureTracker::kLongest && batches <= count_; batches *= 2)
    examine_order(channels, batches, best);
  if (best.order.empty() || best.log_p >= threshold) return;
  channels.active = true;
  found.push_back(std::move(best));
}

// Whether the means look like the reference's in another order: along the line from one to the other they are
// past the middle, and their distance from that line is small. `best` becomes the order that chance explains
// least.
void DriftDetector::examine_order(const Channels& channels, int64_t batches, DriftAlarm& best) const {
  const size_t n = channels.mean.size();
  std::vector<double> apart(n);
  Window weakest;
  double whole = 0;
  for (size_t c = 0; c < n; ++c) {
    const Window seen = channels.trackers[c].window(batches);
    if (c == 0 || seen.independent < weakest.independent) weakest = seen;
    apart[c] = seen.mean - channels.mean[c];
    whole += apart[c] * apart[c];
  }
  if (weakest.rows <= 0) return;
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  while (std::next_permutation(order.begin(), order.end())) {
    double length = 0, along = 0, left = 0;
    Expected expected = channels.trackers[0].expected();
    expected.range = expected.reach = expected.variance = 0;
    std::vector<double> line(n);
    for (size_t c = 0; c < n; ++c) {
      line[c] = channels.mean[static_cast<size_t>(order[c])] - channels.mean[c];
      length += line[c] * line[c];
      along += line[c] * apart[c];
      left += (apart[c] - line[c]) * (apart[c] - line[c]);
      expected.range += std::fabs(line[c]) * channels.trackers[c].expected().range;
      expected.reach += std::fabs(line[c]) * channels.trackers[c].expected().reach;
    }
    for (size_t a = 0; a < n; ++a)
      for (size_t b = 0; b < n; ++b) expected.variance += line[a] * line[b] * channels.covariance[a * n + b];
    if (length < 1e-3 || along < length / 2 || left > whole / 4) continue;
    const double log_p = bound(expected, weakest, along);
    if (!best.order.empty() && log_p >= best.log_p) continue;
    best.field = channels.field;
    best.kind = "channels";
    best.log_p = log_p;
    best.seen = along / length;
    best.order = order;
    best.samples = weakest.rows;
    best.since = step_before(batches);
    best.step = step_before(1);
  }
}

int64_t DriftDetector::step_before(int64_t batches) const {
  return steps_[static_cast<size_t>((count_ - std::min<int64_t>(batches, count_)) %
                                    FeatureTracker::kLongest)];
}

}  // namespace millrace::tuning
