// ValueHistogram: how often values of each size came, in buckets of equal relative width.
//
// 16 buckets per power of two and sign, as an HDR histogram or a DDSketch (Masson, Rim and Lee, VLDB 2019)
// has them: a value's bucket is the top of its float64 bits, so no bounds are chosen, any two histograms can
// be added, and a quantile is right to 3.2 % of its size (half a bucket). Sizes below 2^-40 count as zero,
// those from 2^64 on as the last bucket. A caller that adds values far from zero subtracts an origin first
// (Frame in series_stats.h). 26 KiB; about 1 ns per value. The caller keeps threads apart.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace millrace::tuning {

class ValueHistogram {
 public:
  static constexpr int kPerOctave = 16, kLeastExponent = -40, kMostExponent = 64;
  static constexpr int kSide = (kMostExponent - kLeastExponent) * kPerOctave;
  static constexpr int kZero = kSide, kBuckets = 2 * kSide + 1;

  // Buckets are numbered in the order of their values. `x` is finite or infinite, not NaN.
  static int bucket_of(double x) {
    const uint64_t bits =
        std::bit_cast<uint64_t>(std::fabs(x)) >> 48;  // the exponent, and four bits after it
    constexpr uint64_t least = static_cast<uint64_t>(1023 + kLeastExponent) << 4;
    if (bits < least) return kZero;
    const uint64_t place = bits - least;
    const int side = place < kSide ? static_cast<int>(place) : kSide - 1;
    return x < 0 ? kZero - 1 - side : kZero + 1 + side;
  }
  static double middle_of(int bucket);  // 0 for the bucket of zero

  void add(int bucket, uint64_t count = 1);
  void merge(const ValueHistogram& other);
  // The same values minus `offset`, each taken as its bucket's middle.
  ValueHistogram moved(double offset) const;

  uint64_t total() const { return total_; }
  uint64_t count(int bucket) const { return counts_.empty() ? 0 : counts_[static_cast<size_t>(bucket)]; }
  // The middle of the bucket that holds the value below which the share `q` lies; 0 when there is none.
  double quantile(double q) const;

 private:
  std::vector<uint64_t> counts_;  // kBuckets of them, from the first value on
  uint64_t total_ = 0;
};

}  // namespace millrace::tuning
