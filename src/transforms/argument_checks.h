// Check: one transform of a chain under check, which knows how to name itself in a message; and what each
// transform's arguments have to be. Pure, any thread.
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

const char* name_of(const TransformSpec& spec);

class Check {
 public:
  Check(const TransformSpec& spec, size_t position) : name_(name_of(spec)), position_(position) {}

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

// Each throws Error(invalid_argument) naming the rule and the remedy.
void check_arguments(const RandomResizedCrop& t, const Check& check);
void check_arguments(const Resize& t, const Check& check);
void check_arguments(const CenterCrop& t, const Check& check);
void check_arguments(const RandomCrop& t, const Check& check);
void check_arguments(const Frame& t, const Check& check);
void check_arguments(const DrawnResize& t, const Check& check);
void check_arguments(const RandomPerspective& t, const Check& check);
void check_arguments(const HorizontalFlip& t, const Check& check);
void check_arguments(const VerticalFlip& t, const Check& check);
void check_arguments(const ExifTranspose&, const Check&);
void check_arguments(const ColorJitter& t, const Check& check);
void check_arguments(const PhotometricDistort& t, const Check& check);
void check_arguments(const GaussianNoise& t, const Check& check);
void check_arguments(const Grayscale&, const Check&);
void check_arguments(const RandomGrayscale& t, const Check& check);
void check_arguments(const RandomRotation& t, const Check& check);
void check_arguments(const RandomAffine& t, const Check& check);
void check_arguments(const GaussianBlur& t, const Check& check);
void check_arguments(const AugmentPolicy& t, const Check& check);
void check_arguments(const AugMix& t, const Check& check);
void check_arguments(const RandomErasing& t, const Check& check);
void check_normalize(const Normalize& t, const Check& check);

}  // namespace millrace::transforms
