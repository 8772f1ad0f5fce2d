// fair_shares: the numbers of millrace.samplers.mixture.shares() in Python.
#include "samplers/fair_shares.h"

#include <gtest/gtest.h>

#include <vector>

namespace millrace::samplers {
namespace {

TEST(FairShares, AreThoseOfPython) {
  constexpr uint64_t kMost = uint64_t{1} << 50;
  const auto expect = [](const std::vector<double>& weights, const std::vector<uint64_t>& shares) {
    EXPECT_EQ(fair_shares(weights), shares) << weights[0];
  };
  expect({1}, {1});
  expect({0.1, 0.2, 0.7}, {1, 2, 7});
  expect({0.5, 0, 0.3, 1.25}, {10, 0, 6, 25});
  expect({1.0 / 3, 2.0 / 3}, {1, 2});
  expect({1.0 / 999983, 1.0 / 999979}, {999979, 999983});
  expect({1e-6, 1}, {1, 1000000});
  expect({1e-6, 3e-6}, {1, 3});
  expect({123456.789, 0.001}, {123456789, 1});
  expect({1.0 / 7, 1.0 / 11, 1.0 / 13, 1.0 / 17, 1.0 / 19, 1.0 / 23},
         {1062347, 676039, 572033, 437437, 391391, 323323});
  expect({static_cast<double>(kMost / 2), 1}, {kMost / 2, 1});
  // in no simple proportion
  expect({3.14159265358979, 1}, {kMost, 358385071201417});
  expect({1e-7, 1}, {112589991, kMost});
  expect({0.3333333333333, 1}, {375299968947504, kMost});
  expect({0.1 + 0.2, 0.3}, {kMost, kMost});
  expect({static_cast<double>(kMost), 1}, {kMost, 1});
  expect({1e300, 1}, {kMost, 0});
  expect({5e-324, 1}, {0, kMost});
}

}  // namespace
}  // namespace millrace::samplers
