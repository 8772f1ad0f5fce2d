// FeatureTracker: whether the mean of one bounded feature of samples, over the latest batches, is still what
// a reference says.
//
// Windows of the latest 1, 2, 4, ... 128 examined batches are tested after each one, as in Lai's
// window-limited tests (IEEE Trans. Inf. Theory 44, 1998). bound() says how probable a shift is at most,
// whatever the distribution: samples like those of the reference keep to Bernstein's inequality, 2 exp(-n t^2
// / (2 (variance + reach t / 3))); samples further off than any that the reference has seen are taken to be
// 16 in as many as it has (the "rule of three" of Hanley and Lippman-Hand, JAMA 1983, for a probability of
// e^-16), and their number keeps to Chernoff's bound for Poisson's distribution. So rare values raise no
// alarm, however few the samples are. n joins the window's samples with the reference's, 1 / (1/n_window +
// 1/n_reference), divided by the design effect: how much more batches vary than samples drawn one by one
// would. That is measured in the reference, in the window itself (from 8 batches on), and in the windows
// before; the greatest counts, so feeds of batches that hang together (shards, sorted runs) need a greater
// shift. Constant memory and time; the caller keeps threads apart.
#pragma once

#include <array>
#include <cstdint>

namespace millrace::tuning {

struct Expected {
  double mean = 0, variance = 0;
  double range = 1;    // the furthest from the mean that the feature can be
  double reach = 1;    // the furthest from the mean that the reference has seen
  double samples = 1;  // that the reference has
  double design = 1;   // effect, at least 1
  double least = 0;    // shifts below it are none
  bool share = false;  // between 0 and 1
};

// A mean over the latest batches.
struct Window {
  int64_t batches = 0;
  double rows = 0, mean = 0;
  double design = 1;
  double independent = 0;  // n of the inequality
};

// The logarithm of the probability of so large a shift, at most 0.
double bound(const Expected& expected, const Window& window, double shift);

class FeatureTracker {
 public:
  static constexpr int kWindows = 8, kLongest = 1 << (kWindows - 1);

  explicit FeatureTracker(const Expected& expected);
  void add(double rows, double sum);  // one batch: its samples, and the sum of the feature over them

  Window window(int64_t batches) const;  // at most as many as there are

  struct Finding {
    double log_p = 0;  // 0: nothing
    Window window;
  };
  Finding strongest() const;
  const Expected& expected() const { return expected_; }

 private:
  struct Sums {
    double batches = 0, rows = 0, sum = 0, squares = 0;  // squares: rows of a batch times its mean, squared
  };
  Sums latest(int64_t batches) const;
  double between(const Sums& sums) const;  // the design effect within a window

  Expected expected_;
  std::array<Sums, kLongest + 1> ends_{};  // cumulated, as a ring
  int64_t count_ = 0;
  double before_ = 1;  // design effect of windows of 8 so far
};

}  // namespace millrace::tuning
