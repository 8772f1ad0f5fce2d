// DriftDetector: compares the batches fed to training with a reference, batch by batch, and says what has
// changed.
//
// Of each series: the mean (location), the spread, non-finite numbers, zeros, numbers outside the reference's
// range, and the histogram, as Kolmogorov and Smirnov's distance over bins of equal weight. Of whole numbers:
// each frequent one's share, that of all others, of new ones, and the distance of all shares together (by
// McDiarmid's inequality). Lengths; swapped channels; repeated samples. All tests of a run share one
// probability of a false alarm: it is divided among features and windows, and spent over time as 6 / (pi t)^2
// at the t-th examined batch (Bonferroni), so it holds for runs of any length. That rests on samples that are
// drawn as the reference's were; design effects (drift_tracker.h) allow for batches that hang together. A
// kind of change of a series is reported once, with the step since when, until it has been gone for kQuiet
// batches. About 10 us per batch and ten series; the caller keeps threads apart.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tuning/drift_tracker.h"
#include "tuning/field_stats.h"

namespace millrace::tuning {

struct DriftOptions {
  double false_alarms = 1e-3;  // probability of any in a run
  double least = 1;            // factor on the shifts below which nothing is reported
};

struct DriftAlarm {
  std::string field,
      kind;  // mean, spread, nan, zeros, range, histogram, classes, lengths, channels, duplicates
  int64_t series = 0;
  double expected = 0, seen = 0;  // of the feature: in units of the frame, or shares
  int64_t label = 0;              // of `classes`: the number with the share that changed most
  std::string what;               // of `classes`: "one", "others", "new", "all"
  std::vector<int> order;         // of `channels`: which of the reference's channels each one looks like
  double log_p = 0;
  int64_t since = 0, step = 0;  // steps: of the window's first batch, of the latest one
  double samples = 0;           // of the window
  bool ended = false;           // it has been reported, and is over
};

class DriftDetector {
 public:
  static constexpr int kQuiet = 16;

  DriftDetector(const DriftStats& reference, const DriftOptions& options);
  const FieldReference* reference(const std::string& field) const;

  void begin_batch(int64_t step);
  void add(const std::string& field, const FieldBatch& batch);
  void add_repeats(int64_t samples, int64_t again, int64_t comparisons);
  std::vector<DriftAlarm> end_batch();

 private:
  // Features that share one alarm: their strongest finding. `labels`: of classes.
  struct Watched {
    std::string field, kind;
    int64_t series = 0;
    std::vector<FeatureTracker> trackers;
    std::vector<int64_t> labels;
    bool one_sided = false;
    int quiet = 0;
    bool active = false;
  };
  struct Channels {
    std::string field;
    std::vector<double> mean, covariance;
    std::vector<FeatureTracker> trackers;  // the locations
    bool active = false;
  };
  struct Field {
    FieldReference reference;
    std::vector<size_t> watched;  // in watched_
  };

  void watch_series(const std::string& field, const SeriesStats& stats, int64_t series, bool shape);
  void watch_classes(const std::string& field, const FieldStats& stats, const FieldReference& reference,
                     int64_t series);
  void feed(Watched& watched, const SeriesBatch& batch, const std::vector<double>* classes);
  bool examine(Watched& watched, double threshold, std::vector<DriftAlarm>& found);
  void examine_together(const Watched& watched, DriftAlarm& best) const;
  void examine_channels(Channels& channels, double threshold, std::vector<DriftAlarm>& found);
  void examine_order(const Channels& channels, int64_t batches, DriftAlarm& best) const;
  Channels* channels_of(const std::string& field);
  int64_t step_before(int64_t batches) const;

  DriftOptions options_;
  std::map<std::string, Field> fields_;
  std::vector<Watched> watched_;
  std::vector<Channels> channels_;
  double collisions_ = 0;       // probability that two samples are the same
  std::vector<int64_t> steps_;  // of the latest kLongest batches, as a ring
  int64_t count_ = 0;
  double tests_ = 1;
};

}  // namespace millrace::tuning
