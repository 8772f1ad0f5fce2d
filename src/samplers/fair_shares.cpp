#include "samplers/fair_shares.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>

namespace millrace::samplers {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr uint64_t kMostDenominator = 1000000;
constexpr double kOne = static_cast<double>(int64_t{1} << 50);  // the largest weight, where nothing is exact

struct Fraction {
  uint64_t over = 0, under = 1;
};

// The weight as a fraction with a denominator of at most kMostDenominator, if one has the weight as its
// quotient to the last bit. Weights are below 2^50.
std::optional<Fraction> fraction_of(double weight) {
  if (weight == 0) return Fraction{};
  int exponent = 0;
  auto over = static_cast<uint64_t>(std::ldexp(std::frexp(weight, &exponent), 53));
  int halvings = 53 - exponent;  // weight = over / 2^halvings
  while (halvings > 0 && (over & 1) == 0) over >>= 1, --halvings;
  if (halvings > 100) return std::nullopt;  // below all such fractions
  // Its continued fraction, as far as denominators allow; what comes next to it is the nearest one.
  Wide n = over, d = Wide{1} << halvings;
  Wide p0 = 0, q0 = 1, p1 = 1, q1 = 0;
  const Wide whole = d;
  while (d > 0) {
    const Wide a = n / d, q2 = q0 + a * q1;
    if (q2 > kMostDenominator) break;
    const Wide p2 = p0 + a * p1;
    p0 = p1, q0 = q1, p1 = p2, q1 = q2;
    const Wide rest = n - a * d;
    n = d, d = rest;
  }
  if (d > 0) {
    const Wide k = (kMostDenominator - q0) / q1;
    const Wide under = q0 + k * q1;
    // The nearer one of p1 / q1 and this; the distances are d / (whole q1) and what they have in common less
    // it.
    if (2 * d * under > whole) p1 = p0 + k * p1, q1 = under;
  }
  if (p1 >= Wide{1} << 53) return std::nullopt;
  const Fraction found{static_cast<uint64_t>(p1), static_cast<uint64_t>(q1)};
  if (static_cast<double>(found.over) / static_cast<double>(found.under) != weight) return std::nullopt;
  return found;
}

std::optional<std::vector<uint64_t>> exact_shares(std::span<const double> weights) {
  std::vector<Fraction> fractions;
  Wide common = 1;
  for (const double weight : weights) {
    if (weight >= kOne) return std::nullopt;
    const auto fraction = fraction_of(weight);
    if (!fraction) return std::nullopt;
    fractions.push_back(*fraction);
    common *= fraction->under / std::gcd(static_cast<uint64_t>(common % fraction->under), fraction->under);
    if (common >= Wide{1} << 80) return std::nullopt;  // with a weight of 10^-6 or more, 2^60 at least
  }
  Wide sum = 0;
  std::vector<uint64_t> shares;
  for (const Fraction& fraction : fractions) {
    const Wide times = common / fraction.under;
    if (fraction.over > 0 && times >= (Wide{1} << 50) / fraction.over + 1) return std::nullopt;
    sum += times * fraction.over;
    shares.push_back(static_cast<uint64_t>(times * fraction.over));
  }
  if (sum >= Wide{1} << 50) return std::nullopt;
  return shares;
}

}  // namespace

std::vector<uint64_t> fair_shares(std::span<const double> weights) {
  if (auto shares = exact_shares(weights)) return std::move(*shares);
  const double largest = *std::max_element(weights.begin(), weights.end());
  std::vector<uint64_t> shares;
  for (const double weight : weights)
    shares.push_back(static_cast<uint64_t>(std::nearbyint(weight / largest * kOne)));
  return shares;
}

}  // namespace millrace::samplers
