#include "tuning/moments.h"

#include <algorithm>
#include <array>

namespace millrace::tuning {
namespace {

constexpr size_t kLanes = 8, kBlock = 1024;

template <class Term>
double lane_sum(const double* values, size_t n, Term term) {
  std::array<double, kLanes> lanes{};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(values[i + lane]);
  for (; i < n; ++i) lanes[i % kLanes] += term(values[i]);
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

}  // namespace

void Moments::add(const double* values, size_t n) {
  for (size_t at = 0; at < n; at += kBlock) {
    const size_t size = std::min(kBlock, n - at);
    const double* const block = values + at;
    Moments part;
    part.count = static_cast<int64_t>(size);
    part.mean = lane_sum(block, size, [](double x) { return x; }) / static_cast<double>(size);
    const double middle = part.mean;
    const double rest =
        lane_sum(block, size, [middle](double x) { return x - middle; });  // what rounding left of the mean
    part.m2 = lane_sum(block, size, [middle](double x) { return (x - middle) * (x - middle); }) -
              rest * rest / static_cast<double>(size);
    part.low = rest / static_cast<double>(size);
    merge(part);
  }
}

void Moments::merge(const Moments& other) {
  if (other.count == 0) return;
  if (count == 0) {
    *this = other;
    return;
  }
  const double ours = static_cast<double>(count), theirs = static_cast<double>(other.count),
               all = ours + theirs;
  const double apart = (other.mean - mean) + (other.low - low);
  const double step = apart * (theirs / all) + low, before = mean;
  mean = before + step;
  low = (before - mean) + step;  // exact but for the last bit: |step| is less than the mean, or the two are
                                 // of one size (Dekker 1971)
  m2 += other.m2 + apart * apart * (ours * theirs / all);
  count += other.count;
}

}  // namespace millrace::tuning
