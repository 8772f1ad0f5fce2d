// Check: checks one transform of a chain, and names the transform in messages. Pure, any thread.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <sstream>
#include <string>

#include "millrace/error.h"
#include "millrace/transform_spec.h"

namespace millrace::transforms {

class Check {
 public:
  Check(const char* name, size_t position) : name_(name), position_(position) {}

  void require(bool holds, const std::string& rule_and_remedy) const {
    if (!holds)
      throw Error(ErrorKind::invalid_argument, std::string(name_) + " (transform " +
                                                   std::to_string(position_) +
                                                   " of the chain): " + rule_and_remedy);
  }

  void positive_size(int32_t height, int32_t width) const {
    require(height > 0 && width > 0,
            "height and width must be > 0, got " + std::to_string(height) + " x " + std::to_string(width));
  }
  void probability(double p) const {
    require(p >= 0 && p <= 1, "p must lie between 0 and 1, got " + std::to_string(p));
  }
  void range(const char* argument, const Range& r, double least, double most) const {
    require(r.min >= least && r.min <= r.max && r.max <= most,
            std::string(argument) + " must be (min, max) with " + text(least) + " <= min <= max" +
                (most < kAny ? " <= " + text(most) : " and finite") + ", got (" + text(r.min) + ", " +
                text(r.max) + ")");
  }
  void center(const std::optional<std::array<double, 2>>& at) const {
    require(!at || (std::abs((*at)[0]) <= kAny && std::abs((*at)[1]) <= kAny),
            "center must be (x, y), in pixels and finite");
  }
  void weights(const std::vector<double>& weights) const {
    double sum = 0;
    for (const double weight : weights) {
      require(weight >= 0 && weight <= kAny, "weights must be finite and >= 0");
      sum += weight;
    }
    require(sum > 0, "one weight must be above 0");
  }
  void resize(bool of_tensor, Interpolation interpolation) const {
    require(!of_tensor || interpolation == Interpolation::bilinear || interpolation == Interpolation::bicubic,
            "a tensor is resized bilinear or bicubic; use others before the conversion to a tensor");
  }
  void map(Interpolation interpolation) const {
    require(interpolation <= Interpolation::bicubic, "maps by nearest, bilinear or bicubic");
  }

  static constexpr double kAny = 1e9;  // "finite", and no sum of a few such numbers loses its fractions

 private:
  static std::string text(double v) {
    std::ostringstream stream;
    stream << v;
    return stream.str();
  }

  const char* name_;
  size_t position_;
};

}  // namespace millrace::transforms
