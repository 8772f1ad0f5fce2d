// Moments: count, mean and sum of squared deviations, of any number of values, in constant memory.
//
// A block is summed in eight lanes and its deviations are taken from its own mean; blocks are joined by the
// formula of Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
// variances" (1979). The mean is kept in two parts. So nothing cancels, and the result is float64's to about
// 1e-12 relative, in whatever order parts are merged. Plain data; the caller keeps threads apart.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::tuning {

struct Moments {
  int64_t count = 0;
  double mean = 0;
  double m2 = 0;   // sum of squared deviations from the mean
  double low = 0;  // what rounding left of the mean: it is mean + low

  void add(const double* values, size_t n);  // finite values
  void merge(const Moments& other);
  double variance() const {
    return count > 0 ? m2 / static_cast<double>(count) : 0.0;
  }  // of the values themselves (n, not n - 1)
};

}  // namespace millrace::tuning
