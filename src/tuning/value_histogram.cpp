#include "tuning/value_histogram.h"

namespace millrace::tuning {

double ValueHistogram::middle_of(int bucket) {
  if (bucket == kZero) return 0;
  const int side = bucket > kZero ? bucket - kZero - 1 : kZero - 1 - bucket;
  constexpr uint64_t least = static_cast<uint64_t>(1023 + kLeastExponent) << 4;
  const uint64_t top = least + static_cast<uint64_t>(side);
  const double low = std::bit_cast<double>(top << 48), high = std::bit_cast<double>((top + 1) << 48);
  return bucket > kZero ? (low + high) / 2 : -(low + high) / 2;
}

void ValueHistogram::add(int bucket, uint64_t count) {
  if (counts_.empty()) counts_.resize(kBuckets);
  counts_[static_cast<size_t>(bucket)] += count;
  total_ += count;
}

void ValueHistogram::merge(const ValueHistogram& other) {
  for (int bucket = 0; bucket < kBuckets && other.total_ > 0; ++bucket)
    if (const uint64_t count = other.count(bucket)) add(bucket, count);
}

ValueHistogram ValueHistogram::moved(double offset) const {
  ValueHistogram result;
  for (int bucket = 0; bucket < kBuckets && total_ > 0; ++bucket)
    if (const uint64_t found = count(bucket)) result.add(bucket_of(middle_of(bucket) - offset), found);
  return result;
}

double ValueHistogram::quantile(double q) const {
  if (total_ == 0) return 0;
  const double rank = q * static_cast<double>(total_ - 1);
  uint64_t below = 0;
  int last = kZero;
  for (int bucket = 0; bucket < kBuckets; ++bucket) {
    const uint64_t found = count(bucket);
    if (found == 0) continue;
    below += found;
    last = bucket;
    if (static_cast<double>(below) > rank) break;
  }
  return middle_of(last);
}

}  // namespace millrace::tuning
