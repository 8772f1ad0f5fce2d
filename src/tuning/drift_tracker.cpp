#include "tuning/drift_tracker.h"

#include <algorithm>
#include <cmath>

namespace millrace::tuning {
namespace {

constexpr int64_t kOwnVariation = 8;  // batches from which on a window says how they vary
constexpr double kForget = 0.25;
constexpr double kUnseen =
    16;  // e^-16 is the probability that kUnseen / n of all samples are further off than any of n

}  // namespace

double bound(const Expected& expected, const Window& window, double shift) {
  const auto like_before = [&](double rest) {
    const double spread = expected.variance + expected.reach * rest / 3;
    return rest <= 0    ? 0
           : spread > 0 ? std::log(2.0) - window.independent * rest * rest / (2 * spread)
                        : -HUGE_VAL;
  };
  if (expected.reach >= 0.9 * expected.range) return std::min(0.0, like_before(shift));
  // Up to `far` samples are off by the whole range, the others explain the remaining shift; the best split
  // counts.
  const double weight = expected.range * window.design / window.rows,
               outliers = kUnseen * window.rows / std::max(expected.samples, 1.0);
  double best = 0;
  for (int i = 1; i <= 12; ++i) {
    const double far = shift / weight * i / 12;
    if (far < 1 || far <= outliers) continue;
    const double many = outliers - far + far * std::log(outliers / far),
                 rest = like_before(shift - far * weight);
    best = std::min(best, std::max(many, rest) + std::log1p(std::exp(-std::fabs(many - rest))));
  }
  return best;
}

FeatureTracker::FeatureTracker(const Expected& expected) : expected_(expected), before_(expected.design) {
  expected_.variance *= 1 + 3 / std::sqrt(std::max(expected.samples, 1.0));  // as great as it may be
}

void FeatureTracker::add(double rows, double sum) {
  const Sums& last = ends_[static_cast<size_t>(count_ % (kLongest + 1))];
  ++count_;
  Sums& now = ends_[static_cast<size_t>(count_ % (kLongest + 1))];
  now = {last.batches + (rows > 0), last.rows + rows, last.sum + sum,
         last.squares + (rows > 0 ? sum * sum / rows : 0)};
  if (count_ % kOwnVariation == 0)
    before_ += kForget * (std::max(1.0, between(latest(kOwnVariation))) - before_);
}

FeatureTracker::Sums FeatureTracker::latest(int64_t batches) const {
  const Sums& end = ends_[static_cast<size_t>(count_ % (kLongest + 1))];
  const Sums& begin = ends_[static_cast<size_t>((count_ - batches) % (kLongest + 1))];
  return {end.batches - begin.batches, end.rows - begin.rows, end.sum - begin.sum,
          end.squares - begin.squares};
}

double FeatureTracker::between(const Sums& sums) const {
  if (sums.batches < 2 || sums.rows <= 0) return 1;
  double variance = expected_.variance;
  if (expected_.share) {  // a share that has grown varies more, also when samples are drawn one by one
    const double now = std::clamp(sums.sum / sums.rows, 0.0, 1.0);
    variance += std::max(0.0, now * (1 - now) - expected_.mean * (1 - expected_.mean));
  }
  if (!(variance > 0)) return 1;
  return std::max(0.0, sums.squares - sums.sum * sums.sum / sums.rows) / (sums.batches - 1) / variance;
}

Window FeatureTracker::window(int64_t batches) const {
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
    const double log_p = bound(expected_, seen, shift);
    if (log_p < best.log_p) best = {log_p, seen};
  }
  return best;
}

}  // namespace millrace::tuning
