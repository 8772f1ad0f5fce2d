// ToTensor and Normalize: bytes become numbers, by value_table.h.
#pragma once

#include <cmath>
#include <string>

#include "transforms/ops/operation.h"

namespace millrace::transforms {

template <>
inline constexpr std::array kNamesOf<OutputType>{"uint8", "float16", "bfloat16", "float32", "float64"};

template <>
struct Operation<ToTensor> {
  static constexpr const char *name = "ToTensor", *key = "to_tensor";

  static void fields(auto& f, auto& t) {
    f("dtype", t.type)("multiply?", t.multiply)("channels?", t.channels);
  }
  static void check(const ToTensor& t, const Check& check) {
    check.require(t.channels == 1 || t.channels == 3, "a tensor has 1 or 3 channels");
  }
};

template <>
struct Operation<Normalize> {
  static constexpr const char *name = "Normalize", *key = "normalize";

  static void fields(auto& f, auto& t) { f("mean", t.mean)("std", t.std); }
  static void check(const Normalize& t, const Check& check) {
    const auto one_or_three = [](const std::vector<double>& v) { return v.size() == 1 || v.size() == 3; };
    check.require(one_or_three(t.mean) && one_or_three(t.std),
                  "mean and std need one value or one for each of the three channels, got " +
                      std::to_string(t.mean.size()) + " and " + std::to_string(t.std.size()));
    for (const double v : t.mean) check.require(std::isfinite(v), "mean must be finite");
    for (const double v : t.std) {
      check.require(
          v != 0,
          "std evaluated to zero, leading to division by zero; give each channel's standard deviation");
      check.require(std::isfinite(v), "std must be finite");
    }
  }
};

}  // namespace millrace::transforms
