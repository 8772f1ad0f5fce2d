#include "tuning/drift_tracker.h"

#include <algorithm>
#include <cmath>

namespace millrace {
namespace {

constexpr int64_t kOwnVariation = 8;  // batches from which on a window says how they vary
constexpr double kForget = 0.25;

}  // namespace

FeatureTracker::FeatureTracker(const Expected& expected) : expected_(expected), before_(expected.design) {
  // What fewer than about 3 of the reference's samples show, it need not have seen at all ("rule of three", Hanley 1983).
  expected_.variance += 3 * expected.range * expected.range / std::max(expected.samples, 1.0);
}

void FeatureTracker::add(double rows, double sum) {
  const Sums& last = ends_[static_cast<size_t>(count_ % (kLongest + 1))];
  ++count_;
  Sums& now = ends_[static_cast<size_t>(count_ % (kLongest + 1))];
  now = {last.batches + (rows > 0), last.rows + rows, last.sum + sum, last.squares + (rows > 0 ? sum * sum / rows : 0)};
  if (count_ % kOwnVariation == 0) before_ += kForget * (std::max(1.0, between(latest(kOwnVariation))) - before_);
}

FeatureTracker::Sums FeatureTracker::latest(int64_t batches) const {
  const Sums& end = ends_[static_cast<size_t>(count_ % (kLongest + 1))];
  const Sums& begin = ends_[static_cast<size_t>((count_ - batches) % (kLongest + 1))];
  return {end.batches - begin.batches, end.rows - begin.rows, end.sum - begin.sum, end.squares - begin.squares};
}

double FeatureTracker::between(const Sums& sums) const {
  if (sums.batches < 2 || sums.rows <= 0 || !(expected_.variance > 0)) return 1;
  return std::max(0.0, sums.squares - sums.sum * sums.sum / sums.rows) / (sums.batches - 1) / expected_.variance;
}

FeatureTracker::Window FeatureTracker::window(int64_t batches) const {
  batches = std::min(batches, std::min<int64_t>(count_, kLongest));
  const Sums sums = latest(batches);
  Window result;
  result.batches = batches;
  if (sums.rows <= 0) return result;
  result.rows = sums.rows;
  result.mean = sums.sum / sums.rows;
  result.design = std::max({1.0, expected_.design, batches >= kOwnVariation ? between(sums) : before_});
  result.independent = 1 / (1 / sums.rows + 1 / std::max(expected_.samples, 1.0)) / result.design;
  return result;
}

FeatureTracker::Finding FeatureTracker::strongest() const {
  Finding best;
  for (int64_t batches = 1; batches <= kLongest && batches <= count_; batches *= 2) {
    const Window seen = window(batches);
    const double shift = std::fabs(seen.mean - expected_.mean);
    if (seen.rows <= 0 || shift < expected_.least) continue;
    const double log_p = std::log(2.0) - seen.independent * shift * shift / (2 * (expected_.variance + expected_.range * shift / 3));
    if (log_p < best.log_p) best = {log_p, seen};
  }
  return best;
}

}  // namespace millrace
